// A lock file for one set-up at a time, which outlives neither its holder nor the holder's children.
//
// The file names every process that still works under the lock. It is stale when all of them are gone, so a
// killed set-up whose npm is still writing keeps the others waiting, as it must. Its age matters only where
// processes cannot be asked: another machine, or a number the system has given to someone else since.

import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";

const HEARTBEAT_MS = 2_000;
const SILENT_MS = 30_000; // a holder that cannot be asked is gone after this
const ORPHAN_MS = 600_000; // an orphan may work on this long without its parent's heartbeat
const SETTLE_MS = 200; // between replacing a stale lock and trusting that nobody else did so too

/** Takes the lock, waiting as long as another holds it; onWait is called once if there is a wait. */
export async function takeLock(path, onWait) {
  const pids = new Set([process.pid]);
  const text = () => JSON.stringify({ host: hostname(), pids: [...pids] });
  const mine = `${path}.${process.pid}`;
  const write = () => writeFileSync(mine, text());

  write();
  try {
    for (let told = false; !(create(mine, path) || (await replaceStale(mine, path, write))); ) {
      if (!told) onWait();
      told = true;
      await pause(SETTLE_MS);
    }
  } finally {
    rmSync(mine, { force: true });
  }
  const heartbeat = setInterval(() => touch(path), HEARTBEAT_MS).unref();
  const update = () => {
    write();
    renameSync(mine, path);
  };
  return {
    add: (pid) => update(pids.add(pid)),
    remove: (pid) => update(pids.delete(pid)),
    release() {
      clearInterval(heartbeat);
      rmSync(path, { force: true });
    },
  };
}

// A hard link appears with its content or not at all, so nobody ever reads a lock that is still empty.
function create(mine, path) {
  try {
    linkSync(mine, path);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

// Of several that replace a stale lock at once, the last one has it; the others see that when they look again.
async function replaceStale(mine, path, write) {
  if (!isStale(path)) return false;
  renameSync(mine, path);
  write();
  await pause(SETTLE_MS);
  return read(path) === readFileSync(mine, "utf8");
}

function isStale(path) {
  const text = read(path);
  if (text === undefined) return false; // released just now
  const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  const { host, pids } = parse(text);
  if (host !== hostname()) return age > SILENT_MS;
  return !pids.some(isAlive) || age > ORPHAN_MS;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { host: undefined, pids: [] }; // a disk that was full: its age decides
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

function touch(path) {
  try {
    utimesSync(path, new Date(), new Date());
  } catch {
    // The folder was deleted under us; the work itself will say so.
  }
}
