// Installs a nats-server in .fleet/bin without changes to the system.
//
// The sources, best first: the distribution's archive by apt with its signatures, then the release archive with its
// checksums. A server is started once before it is moved into place, so one that cannot run on this machine (an
// old libc, another processor) is never installed.

import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fetchWithApt } from "./apt/apt.mjs";
import { ownNatsPath, probe } from "./nats-binary.mjs";
import { Problem } from "./problem.mjs";
import { OLDEST_NATS } from "./versions.mjs";

const RELEASE = "2.15.1";
const RELEASES = "https://github.com/nats-io/nats-server/releases";
const CHECKSUMS_MS = 10_000;
const ARCHIVE_MS = 120_000;

/** Installs a server that runs on this machine, or throws a Problem with the command for a manual installation. */
export async function installNatsServer(root, setup, problem) {
  const sources = process.platform === "darwin" ? [] : [fetchWithApt, fetchRelease];
  const tried = [problem];
  for (const fetchServer of sources) {
    for await (const found of fetchServer(setup)) {
      const server = found.path ? probe(found.path) : found;
      if (!server.problem) return place(root, server.path);
      tried.push(server.problem);
    }
  }
  throw new Problem(`${tried.join("\n  ")}\n  ${remedy()}`);
}

// The last step is a rename, so that a killed setup leaves no incomplete server under the final name.
function place(root, path) {
  const target = ownNatsPath(root);
  mkdirSync(dirname(target), { recursive: true });
  chmodSync(path, 0o755);
  renameSync(path, target);
}

async function* fetchRelease(setup) {
  const platform = `${process.platform}-${{ x64: "amd64" }[process.arch] ?? process.arch}`;
  const name = `nats-server-v${RELEASE}-${platform}`;
  const from = `${RELEASES}/download/v${RELEASE}`;
  try {
    const sums = (await get(`${from}/SHA256SUMS`, CHECKSUMS_MS)).toString("utf8");
    const sum = sums
      .split("\n")
      .find((line) => line.endsWith(`${name}.tar.gz`))
      ?.split(/\s/)[0];
    const archive = await get(`${from}/${name}.tar.gz`, ARCHIVE_MS);
    if (createHash("sha256").update(archive).digest("hex") !== sum)
      throw new Error("its checksum is not in SHA256SUMS");
    const file = join(setup.folder, "release.tar.gz");
    writeFileSync(file, archive);
    const unpacked = await setup.run("tar", ["-xzf", file, "-C", setup.folder]);
    if (!unpacked.ok) throw new Error(unpacked.output);
    yield { path: join(setup.folder, name, "nats-server") };
  } catch (error) {
    yield { problem: `${from}/${name}.tar.gz: ${error.cause?.message ?? error.message}` };
  }
}

async function get(url, timeout) {
  const response = await fetch(url, { signal: AbortSignal.timeout(timeout) });
  if (!response.ok) throw new Error(`HTTP status ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

function remedy() {
  if (process.platform === "darwin") return "Run: brew install nats-server";
  return `Download nats-server ${OLDEST_NATS} or newer from ${RELEASES}, then run: export FLEET_NATS_SERVER=/path/to/nats-server`;
}
