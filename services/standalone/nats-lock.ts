/**
 * One server per folder. Two servers on one store destroy it, and nats-server itself does not look; so the folder carries a claim
 * with the server's and its owner's process. A server whose owner was killed is an orphan that holds the port: it is stopped
 * here. One whose owner lives belongs to another Fleet, and is left alone.
 */
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ERROR_TABLE } from "../../shared/protocol/errors.ts";
import { processMark } from "../../shared/runtime/process/process-identity.ts";
import { StartupError } from "../../shared/runtime/process/startup.ts";

interface Claim {
  owner: { pid: number; mark: string | undefined };
  server?: { pid: number; mark: string | undefined };
}

const STOP_MS = 10_000;

export interface HeldClaim {
  /** Notes the server, once it runs. */
  server(pid: number): void;
  release(): void;
}

/** Throws StartupError when a living process holds the folder. */
export async function claimFolder(dir: string): Promise<HeldClaim> {
  const path = join(dir, "claim.json");
  const mine: Claim = { owner: { pid: process.pid, mark: processMark(process.pid) } };
  for (;;) {
    if (take(path, mine)) break;
    const found = read(path);
    if (found !== undefined) {
      refuseLiving(found, dir);
      await stopOrphan(found);
    }
    rmSync(path, { force: true });
  }
  let held = true;
  return {
    server(pid) {
      writeFileSync(path, JSON.stringify({ ...mine, server: { pid, mark: processMark(pid) } }));
    },
    release() {
      // Once: a second call could remove the claim of whoever came after us.
      if (held) rmSync(path, { force: true });
      held = false;
    },
  };
}

/** Whole or not at all: the claim is written aside and linked, so nobody reads half of one. */
function take(path: string, claim: Claim): boolean {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(claim));
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function read(path: string): Claim | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Claim;
  } catch {
    return undefined;
  }
}

function refuseLiving({ owner }: Claim, dir: string): void {
  if (owner?.mark === undefined || processMark(owner.pid) !== owner.mark) return;
  throw new StartupError("another fleet uses this folder", {
    exitCode: ERROR_TABLE.UNAVAILABLE.exit,
    details: { dir, pid: owner.pid },
    hint: "stop that one, or set FLEET_HOME to another folder",
  });
}

async function stopOrphan({ server }: Claim): Promise<void> {
  if (server?.mark === undefined || processMark(server.pid) !== server.mark) return;
  process.kill(server.pid, "SIGTERM");
  const end = performance.now() + STOP_MS;
  while (processMark(server.pid) === server.mark) {
    if (performance.now() > end) process.kill(server.pid, "SIGKILL");
    await sleep(20);
  }
}
