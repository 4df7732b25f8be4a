#!/usr/bin/env bash
# Prints the path of the manifest of SwiftShader, a Vulkan driver on the CPU, for
# VK_DRIVER_FILES. It is a part of Debian's package chromium-common, whose two files it
# unpacks into a folder of the given cache, without installing anything. Fails where
# they cannot be had.
set -euo pipefail
cache=$(realpath -m "$1")/swiftshader
for manifest in /usr/lib/chromium/vk_swiftshader_icd.json "$cache/usr/lib/chromium/vk_swiftshader_icd.json"; do
    if [ -e "$manifest" ]; then
        echo "$manifest"
        exit
    fi
done
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
(cd "$download" && apt-get download -q chromium-common) >&2
mkdir -p "$cache"
dpkg-deb --fsys-tarfile "$download"/chromium-common_*.deb |
    tar -x -C "$cache" ./usr/lib/chromium/libvk_swiftshader.so ./usr/lib/chromium/vk_swiftshader_icd.json
echo "$manifest"
