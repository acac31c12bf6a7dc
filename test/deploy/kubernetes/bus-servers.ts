/** The servers of the bus, started as the pods of the manifests start them, with other addresses. */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { writeClusterFiles } from "../../../shared/bus/access/cluster.ts";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import { freePort } from "../../harness/free-port.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { FOLDER } from "./manifests.ts";

const folders: string[] = [];
const servers: ChildProcess[] = [];

/** Ends all servers and removes their folders. */
export async function stopServers(): Promise<void> {
  for (const server of servers.splice(0)) {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    if (server.exitCode === null && server.kill("SIGKILL")) await ended;
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

interface Ports {
  readonly client: number;
  readonly route: number;
  readonly monitor: number;
}

export type ServerFiles = Pick<BusServers, "access" | "keys" | "tls">;

export interface BusServers {
  readonly folder: string;
  readonly ports: readonly Ports[];
  /** The folder of the files of `fleet access init --signer`. */
  readonly access: string;
  /** The folder of the keys of the fleet. */
  readonly keys: string;
  /** The folder with tls.crt, tls.key and ca.crt. */
  readonly tls: string;
}

/** `write`: makes the files of the servers in the folder. `variables`: further ones of the pods. */
export async function startServers(
  count: number,
  clusterConf: string,
  write = writeFiles,
  variables: Readonly<Record<string, string>> = {},
): Promise<BusServers> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const folder = mkdtempSync(join(tmpdir(), "fleet-kubernetes-nats-"));
  folders.push(folder);
  const { access, keys, tls } = await write(folder);
  const ports = await Promise.all(
    Array.from({ length: count }, async () => ({
      client: await freePort(),
      route: await freePort(),
      monitor: await freePort(),
    })),
  );
  const localised = (text: string, own: Ports): string =>
    text
      .replaceAll("/etc/fleet/tls", tls)
      .replaceAll("0.0.0.0:4222", `127.0.0.1:${own.client}`)
      .replaceAll("0.0.0.0:8222", `127.0.0.1:${own.monitor}`)
      .replaceAll("0.0.0.0:6222", `127.0.0.1:${own.route}`)
      .replaceAll(/nats-(\d)\.nats-headless\.\S+?:6222/g, (_, at) => `localhost:${ports[Number(at)]?.route}`);
  const base = readFileSync(join(FOLDER, "base/nats/server.conf"), "utf8");
  for (const [index, own] of ports.entries()) {
    const dir = join(folder, `server-${index}`);
    const data = join(folder, `data-${index}`);
    mkdirSync(dir);
    mkdirSync(data);
    writeFileSync(join(dir, "server.conf"), localised(base, own));
    writeFileSync(join(dir, "cluster.conf"), localised(clusterConf, own));
    cpSync(join(FOLDER, "base/nats/encrypted-server.conf"), join(dir, "encrypted-server.conf"));
    const pod = readFileSync(join(FOLDER, "base/nats.yaml"), "utf8");
    const script = /- >-\n([\s\S]*?)\n {10}env:/.exec(pod)?.[1]?.replaceAll(/\n?\s{14}/g, " ") ?? "";
    const local = script
      .replaceAll("/etc/fleet/access", access)
      .replace("/etc/fleet/server", dir)
      .replace("exec nats-server", `exec "${found.path}"`);
    const env = { ...process.env, POD_NAME: `nats-${index}`, ...variables };
    const stdio = process.env.FLEET_TEST_LOG ? "inherit" : "ignore";
    servers.push(spawn("sh", ["-c", local], { cwd: data, env, stdio }));
  }
  return { folder, ports, access, keys, tls };
}

/** A document of the monitoring port; without members while the server starts. */
export async function monitor(port: number, path: string): Promise<Record<string, unknown>> {
  try {
    return (await (await fetch(`http://127.0.0.1:${port}${path}`)).json()) as Record<string, unknown>;
  } catch {
    return {}; // it has not started yet
  }
}

/** The contents of the Secrets. */
async function writeFiles(folder: string): Promise<ServerFiles> {
  const access = join(folder, "access");
  const keys = join(folder, "keys");
  const tls = join(folder, "tls");
  mkdirSync(tls);
  makeAuthority(tls, "ca");
  makeCertificate(tls, "server", { names: "DNS:localhost,IP:127.0.0.1" });
  cpSync(join(tls, "ca.pem"), join(tls, "ca.crt"));
  cpSync(join(tls, "server.pem"), join(tls, "tls.crt"));
  cpSync(join(tls, "server.key"), join(tls, "tls.key"));
  const serverConfig = readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8");
  await writeClusterFiles({ keys, dir: access, serverConfig, signer: true, now: new Date() });
  return { access, keys, tls };
}
