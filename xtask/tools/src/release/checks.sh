# Checks the registry after a release. Sourced by bash in the folder that was published from, with the variables of a
# `Release`.

# Replaces GitHub's action: a provenance (https://slsa.dev/provenance/v1) as GitHub would create it for this run.
attest_provenance() {
  local source=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY of
  jq --null-input --arg source "$source" --arg tag "$GITHUB_REF_NAME" --arg commit "$GITHUB_SHA" \
    --arg lock "$(sha256sum "${SCRIPT%/.github/*}/Cargo.lock" | cut --delimiter=' ' --fields=1)" '{
      buildDefinition: {
        buildType: "\($source)/blob/\($tag)/docs/releasing.md",
        externalParameters: {workflow: {ref: "refs/tags/\($tag)", repository: $source, path: ".github/workflows/release.yml"}},
        resolvedDependencies: [
          {uri: "git+\($source)@refs/tags/\($tag)", digest: {gitCommit: $commit}},
          {uri: "Cargo.lock", digest: {sha256: $lock}}
        ]
      },
      runDetails: {builder: {id: "\($source)/dry-run"}}
    }' >provenance.json
  for of in ${IMAGE_DIGEST:+"$IMAGE@$IMAGE_DIGEST"} "$CHART@$CHART_DIGEST"; do
    cosign attest --yes --type slsaprovenance1 --predicate provenance.json "$of"
  done
}

# refused WHY COMMAND...: fails unless the command fails with WHY in its output.
refused() {
  local why=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "accepted: $*" >&2
    return 1
  fi
  if ! grep --quiet --fixed-strings -- "$why" <<<"$said"; then
    printf 'refused, but not because %s: %s\n%s\n' "$why" "$*" "$said" >&2
    return 1
  fi
  echo "refused, $why: $*"
}

verify() {
  cosign "$1" --key "$KEYS/$2.pub" --insecure-ignore-tlog=true "${@:3}" 2>"$KEYS/log" || {
    cat "$KEYS/log" >&2
    return 1
  }
}

# Image and chart have a signature and a provenance of this commit, and none by another key or for other content.
published() {
  local of other
  for of in ${IMAGE_DIGEST:+"$IMAGE@$IMAGE_DIGEST"} "$CHART@$CHART_DIGEST"; do
    # For cosign, an attestation is a signature as well; the type tells them apart.
    verify verify ours "$of" |
      jq --exit-status 'any(.critical.type == "https://sigstore.dev/cosign/sign/v1")' >"$KEYS/log"
    verify verify-attestation ours "$of" --type slsaprovenance1 | jq --exit-status --arg commit "$GITHUB_SHA" \
      '.payload | @base64d | fromjson
       | .predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit == $commit' >"$KEYS/log"
    echo "signed and attested: $of"
    refused 'accepted signatures do not match' verify verify other "$of"
    refused 'accepted signatures do not match' verify verify-attestation other "$of" --type slsaprovenance1

    # Signatures that are moved to other content.
    crane append --new_layer "$CONTROLLER-$VERSION.tgz" --new_tag "${of%@*}:other" >"$KEYS/log" 2>&1
    other=$(crane digest "${of%@*}:other")
    refused 'no signatures found' verify verify ours "${of%@*}@$other"
    crane copy "${of%@*}:sha256-${of#*@sha256:}" "${of%@*}:sha256-${other#sha256:}" 2>"$KEYS/log"
    refused 'digest does not match' verify verify ours "${of%@*}@$other"
    refused 'digest does not match' verify verify-attestation ours "${of%@*}@$other" --type slsaprovenance1
  done
  [ -z "$IMAGE_DIGEST" ] || sboms
}

# Each platform of the image has its SBOM in the registry, attached as by buildx, and as a signed attestation.
sboms() {
  local index platform attached layer architecture
  index=$(crane manifest "$IMAGE@$IMAGE_DIGEST")
  for platform in $(jq --raw-output '.manifests[] | select(.platform.os == "linux").digest' <<<"$index"); do
    attached=$(jq --raw-output --arg of "$platform" \
      '.manifests[] | select(.annotations["vnd.docker.reference.digest"] == $of).digest' <<<"$index")
    layer=$(crane manifest "$IMAGE@$attached" | jq --raw-output '.layers[0].digest')
    crane blob "$IMAGE@$layer" | jq --exit-status --raw-output --arg of "$platform" \
      'select(.predicateType == "https://spdx.dev/Document" and "sha256:" + .subject[0].digest.sha256 == $of)
       | "SBOM of \($of): \(.predicate.packages | length) packages"'
    architecture=$(jq --raw-output --arg of "$platform" '.manifests[] | select(.digest == $of).platform.architecture' <<<"$index")
    verify verify-attestation ours "$IMAGE@$platform" --type spdxjson |
      jq --exit-status --slurpfile sbom "$CONTROLLER-linux-$architecture.spdx.json" \
        '.payload | @base64d | fromjson | .predicate == $sbom[0]' >"$KEYS/log"
    echo "attested: SBOM of $platform"
    refused 'accepted signatures do not match' verify verify-attestation other "$IMAGE@$platform" --type spdxjson
  done
}

# again FOLDER: what the workflow does on a retry of a job, with the content of FOLDER/out.
again() {
  rm -rf "$1/out/layout"
  RUNNER_TEMP=$1 GITHUB_OUTPUT=/dev/null "$SCRIPT" push
}

# A published version can be published again unchanged, but never with the image or the package of $NEXT.
never_twice() {
  local image=$RUNNER_TEMP/other-image package=$RUNNER_TEMP/other-package
  digests before
  again "$RUNNER_TEMP"
  echo "published again as it is: $CONTROLLER $VERSION"
  mkdir "$image" "$package"
  cp -r . "$image/out"
  cp "$NEXT/$CONTROLLER.tar" "$image/out"
  refused "$IMAGE:$VERSION is there already, and not the same" again "$image"
  cp -r . "$package/out"
  cp "$NEXT/$CONTROLLER"-*.tgz "$package/out/$CONTROLLER-$VERSION.tgz"
  refused "$CHART:$VERSION is there already, and not the same" again "$package"
  # A registry that does not answer has not said that the version is missing, neither for an image nor for a chart
  # alone.
  export REGISTRY_HOST=localhost:1
  refused "nobody knows whether localhost:1/owner/$CONTROLLER:$VERSION is there" again "$RUNNER_TEMP"
  GITHUB_REF_NAME=kube-controllers-v$VERSION refused \
    "nobody knows whether localhost:1/owner/charts/kube-controllers:$VERSION is there" again "$RUNNER_TEMP"
  digests after
  cmp "$KEYS/before" "$KEYS/after"
}

digests() {
  crane digest "$IMAGE:$VERSION" >"$KEYS/$1"
  crane digest "$CHART:$VERSION" >>"$KEYS/$1"
}
