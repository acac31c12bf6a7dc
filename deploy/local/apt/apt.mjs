// Fetches the nats-server package with apt, isolated from the system's apt.
//
// The mirrors, keys, proxies and credentials are those of the system, because in a closed network only they work. State,
// cache and sources are in the scratch folder, and the system's apt hooks are not read: Debian's container images
// have one that empties /var/cache. Nothing is installed: the package is unpacked, and one file is taken from it.
// apt checks the archive's signature and the package's hash as usual.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { reasonIn } from "../problem.mjs";
import { mirrorsOf, parseSources } from "./apt-sources.mjs";

// The suites, newest first. Their servers run with the libc of Debian 12 and Ubuntu 22.04.
const FAMILIES = {
  debian: { suites: ["sid", "trixie"], component: "main", keyring: "debian-archive-keyring" },
  ubuntu: { suites: ["devel"], component: "universe", keyring: "ubuntu-archive-keyring" },
};

/** Yields for each mirror and suite the { path } of an unpacked server or a { problem }, until the caller stops. */
export async function* fetchWithApt(setup) {
  const system = readOsRelease();
  const family = FAMILIES[system.ids.find((id) => id in FAMILIES)];
  if (!family || ["apt-get", "apt-config", "dpkg-deb"].some((tool) => spawnSync(tool, ["--version"]).error))
    return;
  let count = 0;
  for (const mirror of mirrorsOf(readSystemSources(), system.codenames)) {
    const signedBy = mirror.signedBy ?? keyringPath(family.keyring);
    if (!signedBy) continue;
    for (const suite of family.suites) {
      const source = { uri: mirror.uri, suite, component: family.component, signedBy };
      yield await fetchPackage(setup, join(setup.folder, `apt-${++count}`), source);
    }
  }
}

async function fetchPackage(setup, folder, { uri, suite, component, signedBy }) {
  for (const part of ["state/lists/partial", "cache/archives/partial", "package"]) {
    mkdirSync(join(folder, part), { recursive: true });
  }
  const source = { Types: "deb", URIs: uri, Suites: suite, Components: component, "Signed-By": signedBy };
  writeFileSync(
    join(folder, "nats.sources"),
    `${Object.entries(source)
      .map((pair) => pair.join(": "))
      .join("\n")}\n`,
  );
  writeFileSync(join(folder, "apt.conf"), configuration(folder));
  const options = {
    cwd: folder,
    env: { ...process.env, APT_CONFIG: join(folder, "apt.conf"), LC_ALL: "C.UTF-8" },
  };
  const steps = [
    () => ["apt-get", ["-q", "update"]],
    () => ["apt-get", ["-q", "download", "nats-server"]],
    () => ["dpkg-deb", ["-x", readdirSync(folder).find((name) => name.endsWith(".deb")), "package"]],
  ];
  for (const step of steps) {
    const [command, args] = step();
    const { ok, output } = await setup.run(command, args, options);
    if (!ok) return { problem: `${uri} ${suite}: ${command} ${args[1]} failed:${reasonIn(output)}` };
  }
  const path = ["usr/sbin", "usr/bin"]
    .map((place) => join(folder, "package", place, "nats-server"))
    .find(existsSync);
  return path ? { path } : { problem: `${uri} ${suite}: the package has no nats-server` };
}

function configuration(folder) {
  const own = {
    "Dir::State": join(folder, "state"),
    "Dir::Cache": join(folder, "cache"),
    "Dir::Etc::SourceList": join(folder, "nats.sources"),
    "Dir::Etc::SourceParts": "/dev/null",
    "Dir::Etc::Preferences": "/dev/null",
    "Dir::Etc::PreferencesParts": "/dev/null",
    // Neither the system's settings nor its hooks are read; the network settings are copied below.
    "Dir::Etc::Main": "/dev/null",
    "Dir::Etc::Parts": "/dev/null",
    "APT::Update::Error-Mode": "any",
    "Acquire::Languages": "none",
    "Acquire::Retries": "2",
    "Acquire::http::Timeout": "20",
    "Acquire::https::Timeout": "20",
    // As root, apt switches to a user without access to this folder.
    ...(process.getuid?.() === 0 ? { "APT::Sandbox::User": "root" } : {}),
  };
  const lines = Object.entries(own).map(([name, value]) => `${name} "${value}";`);
  const dump = spawnSync("apt-config", ["dump"], { encoding: "utf8" }).stdout ?? "";
  const network = dump.split("\n").filter((line) => /^Acquire::(https?|ftp|tor|Check-)/i.test(line));
  return [...network, ...lines, ""].join("\n");
}

function readSystemSources() {
  const parts = "/etc/apt/sources.list.d";
  const names = existsSync(parts) ? readdirSync(parts).map((name) => join(parts, name)) : [];
  return ["/etc/apt/sources.list", ...names]
    .filter((path) => /\.(list|sources)$/.test(path) && existsSync(path))
    .flatMap((path) => parseSources(path, readFileSync(path, "utf8")));
}

function readOsRelease() {
  const text = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  const fields = Object.fromEntries(
    [...text.matchAll(/^(\w+)="?(.*?)"?$/gm)].map(([, name, value]) => [name, value]),
  );
  const codenames = [fields.UBUNTU_CODENAME, fields.DEBIAN_CODENAME, fields.VERSION_CODENAME].filter(Boolean);
  return { ids: [fields.ID, ...(fields.ID_LIKE ?? "").split(" ")].filter(Boolean), codenames };
}

const keyringPath = (name) =>
  ["gpg", "pgp"].map((ending) => `/usr/share/keyrings/${name}.${ending}`).find((path) => existsSync(path));
