/** A real Postgres server on a free port of this machine, in its own folder, until {@link TestPostgres.stop}. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";

export interface TestPostgres {
  /** With the password. */
  readonly url: string;
  readonly password: string;
  stop(): Promise<void>;
}

/** Why no server can be started here; null: one can. */
export function postgresProblem(): string | null {
  const missing = ["initdb", "postgres"].find((name) => spawnSync(name, ["--version"]).status !== 0);
  if (missing !== undefined) return `${missing} is not on PATH`;
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

export async function startPostgres(): Promise<TestPostgres> {
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
  execFileSync("initdb", ["-D", data, "--no-sync", ...access], { ...options, stdio: "pipe" });
  const port = await freePort();
  const listen = ["-c", "listen_addresses=127.0.0.1", "-c", `unix_socket_directories=${folder}`];
  const server = spawn("postgres", ["-D", data, "-F", "-p", String(port), ...listen], {
    ...options,
    stdio: ["ignore", "ignore", "pipe"],
  });
  await ready(server);
  const url = `postgres://fleet:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.end();
  return {
    ...{ url, password },
    async stop() {
      const ended = once(server, "exit");
      // It waits until its clients have left, so no connection of a test breaks.
      server.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  server.close();
  await once(server, "close");
  return port;
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
