# syntax=docker/dockerfile:1

# The image of one controller, for those who build with docker:
#
#   docker buildx build --build-arg BIN=ttl-controller --tag ttl-controller --load .
#
# For both platforms (`--platform linux/amd64,linux/arm64`) with `--push` instead of `--load`: a Docker daemon holds one.
#
# Releases come from `cargo xtask image`, which needs no daemon and gives the same bytes each time. This one cannot
# name its entry point after the controller, and takes what its labels say from arguments (VERSION, REVISION, SOURCE);
# what it runs is the same, and its binary names the crates that it is made of. With `--sbom=true` it lists its parts, too.

# The compiler runs on the machine that builds, for whichever platform. Its version is that of rust-toolchain.toml.
FROM --platform=$BUILDPLATFORM rust:1.95.0-slim-bookworm AS build
# Not the file itself: that would fetch what only developers need.
ENV RUSTUP_TOOLCHAIN=1.95.0
SHELL ["/bin/sh", "-eu", "-c"]
WORKDIR /source
ARG TARGETARCH
RUN <<INSTALL
    case "$TARGETARCH" in
        amd64)
            triple=x86_64-unknown-linux-gnu gcc=x86_64-linux-gnu-gcc packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross"
            # 0.4 MiB less to load and to keep; the linker for arm64 does not know how.
            flags="-C link-arg=-Wl,-z,pack-relative-relocs"
            ;;
        arm64)
            triple=aarch64-unknown-linux-gnu gcc=aarch64-linux-gnu-gcc packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
            flags=
            ;;
        *) echo "nothing is shipped for $TARGETARCH" >&2; exit 1 ;;
    esac
    # The compiler for the machine itself is there under this name.
    if ! command -v "$gcc"; then
        apt-get update
        apt-get install --yes --no-install-recommends $packages
        rm -r /var/lib/apt/lists
    fi
    rustup target add "$triple"
    printf 'triple=%s\ngcc=%s\nflags="%s"\n' "$triple" "$gcc" "$flags" >/platform
INSTALL
# Has the crates that are linked in stand in the binary, where scanners look: that of `--sbom=true`, for one.
RUN cargo install --quiet --locked --version 0.7.7 cargo-auditable

COPY . .
ARG BIN
# The commit, for `--version` and controller_build_info.
ARG REVISION=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/source/target,id=target-$TARGETARCH,sharing=locked <<BUILD
    . /platform
    BUILD_COMMIT="$REVISION" \
    RUSTFLAGS="-C target-feature=+crt-static -C linker=$gcc --cfg getrandom_backend=\"linux_getrandom\" $flags" \
        cargo auditable build --release --locked --package "${BIN:?which controller? --build-arg BIN=ttl-controller}" --bin "$BIN" --target "$triple"
    mkdir -p /root-of-image/usr/local/bin
    cp "target/$triple/release/$BIN" "/root-of-image/usr/local/bin/$BIN"
    # An entry point cannot be named by an argument.
    ln -s "$BIN" /root-of-image/usr/local/bin/controller
BUILD

FROM scratch
ARG BIN
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=
LABEL org.opencontainers.image.title=$BIN \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.source=$SOURCE \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /root-of-image /
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/controller"]
