#!/usr/bin/env bash
# `.github/release.sh STEP` takes one step of a release. The jobs of release.yml and `cargo xtask release --dry-run` call
# the same steps in the same order.
#
# The tag names everything: no name comes from an earlier step, which might have been changed by what it ran.
set -euo pipefail

controller=${GITHUB_REF_NAME%-v*}
version=${GITHUB_REF_NAME##*-v}
registry_host=${REGISTRY_HOST:-ghcr.io}
# The registry wants lower case.
registry=$registry_host/${GITHUB_REPOSITORY_OWNER,,}
image=$registry/$controller
chart=$registry/charts/$controller
source=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY
# What is built, and what is published.
out=$RUNNER_TEMP/out

# The chart kube-controllers has no image; a step that is about one does nothing for it.
has_image() {
  [ "$controller" != kube-controllers ]
}

### Build and verify: in a checkout of the tag.

commit_is_on_main() {
  git merge-base --is-ancestor "$GITHUB_SHA" origin/main
}

# An SSH key in .github/allowed_signers of this commit, which is on main, signed the tag. Refuses a tag that is signed under
# another name or for another commit.
tag_is_signed() {
  local signed
  signed=$(git -c gpg.ssh.allowedSignersFile=.github/allowed_signers -c gpg.program=false -c gpg.x509.program=false \
    verify-tag --format='%(tag) %(object)' "$GITHUB_REF_NAME")
  test "$signed" = "$GITHUB_REF_NAME $GITHUB_SHA"
}

# Tag, crate, chart and changelog name the same version.
versions_agree() {
  cargo xtask release check "$GITHUB_REF_NAME"
}

# Installs the compiler for linux/arm64.
install_compiler() {
  has_image || return 0
  sudo apt-get update -q
  sudo apt-get install -qy --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  rustup target add x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
}

# Builds the image for all platforms, with the SBOM of each.
build_image() {
  has_image || return 0
  IMAGE_SOURCE=$source cargo xtask image "$controller" --platform "${PLATFORMS:-linux/amd64,linux/arm64}" --output "$out"
}

# Runs the image from an empty root against the real API server.
verify_image() {
  has_image || return 0
  cargo xtask control-plane
  cargo xtask verify-image "$out/$controller.tar"
}

# Writes the charts; that of a controller installs this image.
package_chart() {
  mkdir --parents "$out"
  cargo xtask charts --registry "$registry" --source "$source" --images "$out"
  ! has_image || helm package "charts/$controller" --destination "$out"
}

# Writes the same without Helm.
write_manifests() {
  has_image || return 0
  cargo xtask manifests "$controller" --output "$out"
  cd "$out"
  tar --create --gzip --remove-files --file "$controller-kustomize.tar.gz" "$controller-kustomize"
}

# Writes the section of the changelog.
write_notes() {
  cargo xtask release notes "$GITHUB_REF_NAME" | tee "$out/notes.md"
}

# Packages kube-controllers with the released charts that it depends on, in the place of those in the repository.
package_umbrella() {
  ! has_image || return 0
  rm charts/kube-controllers/charts/*
  helm dependency update charts/kube-controllers
  helm package charts/kube-controllers --destination "$out"
}

log_in() {
  docker login "$registry_host" --username "$GITHUB_ACTOR" --password-stdin <<<"$TOKEN"
}

### Publish: runs nothing of what was built.

# Installs crane and cosign, checked against Go's checksum database.
install_tools() {
  export CGO_ENABLED=0 GOBIN=$RUNNER_TEMP/bin
  go install github.com/google/go-containerregistry/cmd/crane@v0.22.1
  go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
  echo "$GOBIN" >>"$GITHUB_PATH"
}

# ask COMMAND REFERENCE: what crane says of the reference; nothing where the registry says that it lacks it. Any other
# answer (a 5xx, a refusal) ends the release: taken for an absence, it would let us push over a version.
ask() {
  crane "$@" 2>refusal && return
  if ! grep --quiet --extended-regexp 'MANIFEST_UNKNOWN|NAME_UNKNOWN|status code 404' refusal; then
    echo "::error::nobody knows whether $2 is there"
    cat refusal
    exit 1
  fi >&2
}

# same NAME PUBLISHED OURS: a version is never published twice, but a run that is tried again goes on from what it has
# published.
same() {
  if [ "$2" != "$3" ]; then
    echo "::error::$1:$version is there already, and not the same"
    exit 1
  fi
}

# Pushes image and chart; their names and digests are its outputs.
push() {
  local found image_digest='' package=$controller-$version.tgz
  cd "$out"
  if has_image; then
    mkdir layout
    tar --extract --file "$controller.tar" --directory layout
    image_digest=$(jq --raw-output '.manifests[0].digest' layout/index.json)
    found=$(ask digest "$image:$version")
    if [ -n "$found" ]; then
      same "$image" "$found" "$image_digest"
    else
      crane push layout "$image:$version"
    fi
  fi

  # The manifest of a chart contains the time of the push; its only layer is the package.
  found=$(ask manifest "$chart:$version" | jq --raw-output '.layers[0].digest')
  if [ -n "$found" ]; then
    same "$chart" "$found" "sha256:$(sha256sum "$package" | cut --delimiter=' ' --fields=1)"
  else
    helm push "$package" "oci://$registry/charts"
  fi

  {
    echo "image_digest=$image_digest"
    echo "chart_digest=$(crane digest "$chart:$version")"
    echo "image=$image"
    echo "chart=$chart"
  } >>"$GITHUB_OUTPUT"
}

# Attests the SBOM of each platform: the document in the index says of itself whose it is; signed, somebody else says so.
attest_sboms() {
  local platforms platform
  has_image || return 0
  cd "$out"
  crane manifest "$image@$IMAGE_DIGEST" >index.json
  platforms=$(jq --raw-output '.manifests[] | select(.platform.os == "linux") | "\(.platform.architecture)=\(.digest)"' index.json)
  for platform in $platforms; do
    cosign attest --yes --type spdxjson --predicate "$controller-linux-${platform%%=*}.spdx.json" "$image@${platform#*=}"
  done
}

# Signs image and chart, without keys.
sign() {
  cosign sign --yes --recursive ${IMAGE_DIGEST:+"$image@$IMAGE_DIGEST"} "$chart@$CHART_DIGEST"
}

create_github_release() {
  local kind
  cd "$out"
  shopt -s nullglob
  case $version in *-*) kind=--prerelease ;; *) kind=--latest=false ;; esac
  GH_REPO=$GITHUB_REPOSITORY gh release create "$GITHUB_REF_NAME" --verify-tag "$kind" --title "$controller $version" \
    --notes-file notes.md "$controller-$version.tgz" ./*.spdx.json ./*.yaml ./*.tar.gz
}

"$1"
