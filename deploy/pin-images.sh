#!/bin/sh
# Prints the images of docker-compose.yml with the digests that the registries give them today, for .env:
#
#     deploy/pin-images.sh >> .env
#
# A tag can be moved to other content; a digest cannot. Run it again after a change of the versions in docker-compose.yml.
set -eu
cd "$(dirname "$0")/.."
sed -n 's/.*\${\([A-Z_]*_IMAGE\):-\([^}]*\)}.*/\1 \2/p' docker-compose.yml | sort -u | while read -r name image; do
    echo "$name=$image@$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")"
done
