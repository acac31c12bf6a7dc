// The system's mirrors are found in both formats of apt's lists, and precede the archives of other vendors.

import { expect, test } from "vitest";
import { mirrorsOf, parseSources } from "../../../deploy/local/apt/apt-sources.mjs";

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

test("deb822: comments, folded lines, several values, disabled sources", () => {
  const text = `Types: deb deb-src
# URIs: http://commented.example/debian
URIs: http://mirror.example/debian
  https://second.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: ${KEYRING}

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm

Types: deb
URIs: http://inline.example/debian
Suites: trixie
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
`;
  expect(parseSources("/etc/apt/sources.list.d/debian.sources", text)).toEqual([
    {
      uris: ["http://mirror.example/debian", "https://second.example/debian"],
      suites: ["bookworm", "bookworm-updates"],
      signedBy: KEYRING,
    },
    { uris: ["http://inline.example/debian"], suites: ["trixie"] },
  ]);
});

test("one line per source: options, comments, source packages", () => {
  const text = `# deb http://commented.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # the nearest
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=${KEYRING}] http://signed.example/debian bookworm main
`;
  expect(parseSources("/etc/apt/sources.list", text)).toEqual([
    { uris: ["http://mirror.example/debian"], suites: ["bookworm"] },
    { uris: ["http://signed.example/debian"], suites: ["bookworm"], signedBy: KEYRING },
  ]);
});

test("mirrors: those of the running release, the distribution's first, each once", () => {
  const sources = [
    { uris: ["https://vendor.example/linux"], suites: ["bookworm"] },
    { uris: ["http://mirror.example/debian"], suites: ["bookworm"], signedBy: KEYRING },
    { uris: ["http://mirror.example/debian"], suites: ["bookworm-updates", "bookworm"] },
    { uris: ["http://mirror.example/debian-security"], suites: ["bookworm-security"] },
    { uris: ["cdrom:[Debian 12]/"], suites: ["bookworm"] },
  ];
  expect(mirrorsOf(sources, ["bookworm"])).toEqual([
    { uri: "http://mirror.example/debian", signedBy: KEYRING },
    { uri: "https://vendor.example/linux" },
  ]);
});
