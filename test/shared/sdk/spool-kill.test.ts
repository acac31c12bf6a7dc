// Processes that are killed while they spool and while they send: what was said to be spooled reaches the queue, once and in order.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { connect } from "../../../shared/sdk/sdk.ts";
import { commandLine, linesOf } from "../../../shared/sdk/spool/line.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { spooled } from "./spool-command.ts";
import { storedOf } from "./stored.ts";

const NOWHERE = "nats://127.0.0.1:1";
const program = fileURLToPath(new URL("spooler.program.ts", import.meta.url));
const root = mkdtempSync(join(tmpdir(), "fleet-spool-kill-"));
let nats: TestNats;

beforeAll(async () => {
  nats = await startNats();
  const bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  await bus.close();
});
afterAll(async () => {
  await nats?.stop();
  rmSync(root, { recursive: true, force: true });
});

interface Writing {
  readonly child: ChildProcess;
  /** Ids that the process said were spooled, so far. */
  readonly said: () => string[];
  /** Resolves when it has said so many. */
  until(count: number): Promise<void>;
  kill(): Promise<void>;
}

function write(url: string, dir: string, task: string, count?: number): Writing {
  const own = count === undefined ? [] : [String(count)];
  const child = spawn(process.execPath, [program, url, dir, task, ...own], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  const waiting: { count: number; resolve: () => void }[] = [];
  // A line that the kill cut in the middle was not said.
  const said = () => [...text.matchAll(/^spooled (\S+)$(?=\n)/gm)].map(([, id]) => id!);
  child.stdout.on("data", (chunk) => {
    text += chunk;
    for (const one of waiting) if (said().length >= one.count) one.resolve();
  });
  const closed = once(child, "close");
  return {
    child,
    said,
    until: (least) =>
      new Promise((resolve, reject) => {
        waiting.push({ count: least, resolve });
        if (said().length >= least) resolve();
        void closed.then(() => reject(new Error(`ended early:\n${text}`)));
      }),
    async kill() {
      child.kill("SIGKILL");
      await closed;
    },
  };
}

/** Sends everything there is, as the agent's next process would. */
async function sendAll(dir: string): Promise<{ aside: number }> {
  const client = await connect({
    url: nats.url,
    spoolDir: dir,
    agentId: "agent",
    env: {},
    onWarning: () => {},
  });
  const left = await client.flush({ deadlineMs: 60_000 });
  await client.close();
  expect(left.commands).toBe(0);
  return left;
}

/** Each id once, and those of `said` in their order; others are commands whose process was killed before it could say so. */
async function expectStored(task: string, said: readonly string[]): Promise<void> {
  const ids = (await storedOf(nats.url, task)).map(({ body }) => body.command_id);
  expect(new Set(ids).size).toBe(ids.length);
  const known = new Set(said);
  expect(ids.filter((id) => known.has(id))).toEqual(said);
}

test("killed while spooling, again and again, with torn tails: nothing is lost, the order stays", async () => {
  const dir = join(root, "torn");
  const open = join(dir, "default.agent", "open");
  const said: string[] = [];
  let torn = 0;
  for (let round = 0; round < 12; round += 1) {
    const one = write(NOWHERE, dir, "torn");
    await one.until(3 + ((round * 7) % 11));
    await one.kill();
    said.push(...one.said());
    // What a kill in the middle of a write leaves, made sure of; in some rounds the file ends inside its last line.
    if (round % 3 === 0) appendFileSync(open, commandLine(spooled("torn")).subarray(0, 40 + round * 9));
    else if (round % 3 === 1) {
      appendFileSync(open, commandLine(spooled("torn")));
      truncateSync(open, readFileSync(open).length - 1 - round);
    }
    if (round % 3 < 2) torn += 1;
  }
  expect(said.length).toBeGreaterThan(60);
  expect((await sendAll(dir)).aside).toBeGreaterThanOrEqual(torn);
  await expectStored("torn", said);
}, 180_000);

test("a disk that takes no more: an error, and nothing of that command is ever sent", async () => {
  const dir = join(root, "full");
  // The system's limit on the size of a file acts as a full disk does: a write ends early, the next one fails.
  const limited = [
    "-c",
    'ulimit -f 9; exec "$0" "$@"',
    process.execPath,
    program,
    NOWHERE,
    dir,
    "full",
    "12",
  ];
  const child = spawn("sh", limited, { stdio: ["ignore", "pipe", "inherit"] });
  const printed = (await text(child.stdout)).trim().split("\n");
  const ids = (pattern: RegExp) =>
    printed.flatMap((line) => (pattern.test(line) ? [line.split(" ")[1]!] : []));
  const said = ids(/^spooled /);
  const refused = ids(/^UNAVAILABLE\/(ENOSPC|EFBIG) /);
  expect(said.length).toBeGreaterThan(1);
  expect(refused.length).toBeGreaterThan(1);
  expect(said.length + refused.length).toBe(12);
  const file = readFileSync(join(dir, "default.agent", "open"));
  expect([...linesOf(file)].map(({ kind }) => kind)).toEqual([...said.map(() => "command"), "damaged"]);
  await sendAll(dir);
  expect((await storedOf(nats.url, "full")).map(({ body }) => body.command_id)).toEqual(said);
}, 60_000);

test("two processes of one agent spool side by side, and both are killed", async () => {
  const dir = join(root, "two");
  const said: [string[], string[]] = [[], []];
  for (let round = 0; round < 4; round += 1) {
    const both = [write(NOWHERE, dir, "two-a"), write(NOWHERE, dir, "two-b")];
    await Promise.all(both.map((one) => one.until(20)));
    await Promise.all(both.map((one) => one.kill()));
    for (const [i, one] of both.entries()) said[i]!.push(...one.said());
  }
  await sendAll(dir);
  await expectStored("two-a", said[0]);
  await expectStored("two-b", said[1]);
}, 180_000);

test("killed while sending, one after the other: everything arrives once, in order", async () => {
  const dir = join(root, "sending");
  const one = write(NOWHERE, dir, "sending", 600);
  await one.until(600);
  await once(one.child, "exit");
  const said = one.said();
  // Each sends as soon as it is up; its own command for the same task waits behind all of them.
  for (let round = 0; round < 6; round += 1) {
    const sender = write(nats.url, dir, "other", 1);
    const before = (await storedOf(nats.url, "sending")).length;
    if (before === said.length) break;
    while ((await storedOf(nats.url, "sending")).length <= before && sender.child.exitCode === null);
    await sender.kill();
  }
  await sendAll(dir);
  await expectStored("sending", said);
  expect(existsSync(join(dir, "default.agent", "open"))).toBe(false);
}, 180_000);

test("two processes that send one spool at once harm nobody", async () => {
  const dir = join(root, "both");
  const one = write(NOWHERE, dir, "both", 300);
  await one.until(300);
  await once(one.child, "exit");
  await Promise.all([sendAll(dir), sendAll(dir), once(write(nats.url, dir, "other", 1).child, "exit")]);
  await expectStored("both", one.said());
}, 180_000);
