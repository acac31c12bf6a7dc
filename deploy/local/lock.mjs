// A lock file for one setup at a time, which does not outlive its holder and the holder's children.
//
// The file names every process that works under the lock. It is stale when all of them have ended, so a killed
// setup whose npm is still writing keeps the others waiting. Its age matters only where processes cannot be
// checked: on another machine, or if the system has reused a process id.

import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";

const HEARTBEAT_MS = 2_000;
const SILENT_MS = 30_000; // a holder that cannot be checked counts as ended after this
const ORPHAN_MS = 600_000; // an orphan may continue this long without its parent's heartbeat
const SETTLE_MS = 200; // between replacing a stale lock and checking that no other process replaced it too

/** Takes the lock, and waits while another process holds it. `onWait` is called once if it must wait. */
export async function takeLock(path, onWait) {
  const pids = new Set([process.pid]);
  const text = () => JSON.stringify({ host: hostname(), pids: [...pids] });
  const mine = `${path}.${process.pid}`;
  const write = () => writeFileSync(mine, text());

  write();
  try {
    for (let hasWaited = false; !(create(mine, path) || (await replaceStale(mine, path, write))); ) {
      if (!hasWaited) onWait();
      hasWaited = true;
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

const NO_LINKS = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"];

// A hard link appears with its content or not at all, so no process reads an empty lock.
function create(mine, path) {
  try {
    linkSync(mine, path);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    if (NO_LINKS.includes(error.code)) return createWithoutLink(mine, path);
    throw error;
  }
}

// For file systems without hard links (exFAT, shared folders). An empty lock counts by its age, so a reader waits for its content.
function createWithoutLink(mine, path) {
  try {
    writeFileSync(path, readFileSync(mine), { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

// If several processes replace a stale lock at once, the last one holds it; the others notice that in the check.
async function replaceStale(mine, path, write) {
  if (!isStale(path)) return false;
  renameSync(mine, path);
  write();
  await pause(SETTLE_MS);
  return read(path) === readFileSync(mine, "utf8");
}

function isStale(path) {
  const text = read(path);
  if (text === undefined) return false; // just released
  const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  const { host, pids } = parse(text);
  if (host !== hostname()) return age > SILENT_MS;
  return !pids.some(isAlive) || age > ORPHAN_MS;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { host: undefined, pids: [] }; // after a full disk, its age decides
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
    // The folder was deleted; the work itself will fail with that error.
  }
}
