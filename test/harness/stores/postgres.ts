/** A real Postgres server on a free port of this machine, in its own folder, until {@link TestPostgres.stop}. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { freePort } from "../free-port.ts";

export interface TestPostgres {
  /** With the password. */
  readonly url: string;
  readonly password: string;
  readonly version: string;
  stop(): Promise<void>;
}

/** Where Debian has the programs of the server, which are not on PATH. */
const VERSIONS = "/usr/lib/postgresql";

/** The program of the newest version. Null: there is none. */
function programPath(name: string): string | null {
  if (spawnSync(name, ["--version"]).status === 0) return name;
  if (!existsSync(VERSIONS)) return null;
  const versions = readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a));
  return versions.map((one) => join(VERSIONS, one, "bin", name)).find((path) => existsSync(path)) ?? null;
}

/** Why no server can be started here; null: one can. */
export function postgresProblem(): string | null {
  const missing = ["initdb", "postgres"].find((name) => programPath(name) === null);
  if (missing !== undefined) return `${missing} is neither on PATH nor in ${VERSIONS}`;
  return process.getuid?.() === 0 && otherUser() === null
    ? "Postgres refuses to run as root, and there is no other user"
    : null;
}

/** Postgres refuses to run as root. null: there is no other user. */
function otherUser(): { readonly uid: number; readonly gid: number } | null {
  const idOf = (flag: string): number => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  try {
    return { uid: idOf("-u"), gid: idOf("-g") };
  } catch {
    return null;
  }
}

interface PostgresOptions {
  /** Whether an acknowledged commit survives a power cut. Default: no, because tests need only the speed. */
  readonly durable?: boolean;
}

/** Settings of a server whose commits are on disk before their acknowledgement. These are its defaults. */
const DURABLE = ["-c", "fsync=on", "-c", "synchronous_commit=on"];

export async function startPostgres({ durable = false }: PostgresOptions = {}): Promise<TestPostgres> {
  const password = "a-secret:of/Postgres";
  const folder = mkdtempSync(join(tmpdir(), "fleet-postgres-"));
  const user = process.getuid?.() === 0 ? otherUser() : null;
  const passwords = join(folder, "password");
  writeFileSync(passwords, password);
  chmodSync(folder, 0o700);
  for (const path of [folder, passwords]) if (user !== null) chownSync(path, user.uid, user.gid);
  const options = { cwd: folder, ...user };
  const data = join(folder, "data");
  const access = ["--auth=scram-sha-256", "--username=fleet", `--pwfile=${passwords}`];
  execFileSync(programPath("initdb")!, ["-D", data, "--no-sync", ...access], { ...options, stdio: "pipe" });
  const port = await freePort();
  const listen = ["-c", "listen_addresses=127.0.0.1", "-c", `unix_socket_directories=${folder}`];
  const safety = durable ? DURABLE : ["-F"];
  const server = spawn(programPath("postgres")!, ["-D", data, ...safety, "-p", String(port), ...listen], {
    ...options,
    stdio: ["ignore", "ignore", "pipe"],
  });
  await ready(server);
  const url = `postgres://fleet:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  return {
    ...{ url, password, version: await versionOf(url) },
    async stop() {
      if (server.exitCode === null && server.signalCode === null) {
        const ended = once(server, "exit");
        // It waits until its clients have left, so no connection of a test breaks.
        server.kill("SIGTERM");
        await ended;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function versionOf(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ server_version: string }>("SHOW server_version");
  await client.end();
  return rows[0]!.server_version;
}

/** Resolves when the server accepts connections. Rejects with what it printed, if it ends. */
function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let printed = "";
    server.stderr?.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
      if (printed.includes("ready to accept connections")) resolve();
    });
    server.once("exit", () => reject(new Error(`Postgres ended:\n${printed}`)));
  });
}
