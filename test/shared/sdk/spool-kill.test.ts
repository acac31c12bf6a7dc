// Processes that are killed while they spool and while they send: every command with the outcome `spooled` reaches the queue, once and in
// order.

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
import { queueMessagesOf } from "./queue-messages.ts";
import { spooled } from "./spool-command.ts";

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

interface Spooler {
  readonly child: ChildProcess;
  /** The ids that the process has reported as spooled so far. */
  readonly reported: () => string[];
  /** Resolves when the process has reported this number of ids. */
  until(count: number): Promise<void>;
  kill(): Promise<void>;
}

function write(url: string, dir: string, task: string, count?: number): Spooler {
  const own = count === undefined ? [] : [String(count)];
  const child = spawn(process.execPath, [program, url, dir, task, ...own], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  const waiters: { count: number; resolve: () => void }[] = [];
  // A line that the kill truncated does not count.
  const reported = () => [...text.matchAll(/^spooled (\S+)$(?=\n)/gm)].map(([, id]) => id!);
  child.stdout.on("data", (chunk) => {
    text += chunk;
    for (const one of waiters) if (reported().length >= one.count) one.resolve();
  });
  const closed = once(child, "close");
  return {
    child,
    reported,
    until: (least) =>
      new Promise((resolve, reject) => {
        waiters.push({ count: least, resolve });
        if (reported().length >= least) resolve();
        void closed.then(() => reject(new Error(`ended early:\n${text}`)));
      }),
    async kill() {
      child.kill("SIGKILL");
      await closed;
    },
  };
}

/** Sends the whole spool, as the agent's next process would. */
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

/** Expects each id once, and those of `reported` in order. Other ids are of commands whose process was killed before it reported them. */
async function expectQueued(task: string, reported: readonly string[]): Promise<void> {
  const ids = (await queueMessagesOf(nats.url, task)).map(({ body }) => body.command_id);
  expect(new Set(ids).size).toBe(ids.length);
  const known = new Set(reported);
  expect(ids.filter((id) => known.has(id))).toEqual(reported);
}

test("a process that is killed repeatedly while it spools loses no command and keeps the order, also with truncated lines", async () => {
  const dir = join(root, "torn");
  const open = join(dir, "default.agent", "open");
  const reported: string[] = [];
  let torn = 0;
  for (let round = 0; round < 12; round += 1) {
    const one = write(NOWHERE, dir, "torn");
    await one.until(3 + ((round * 7) % 11));
    await one.kill();
    reported.push(...one.reported());
    // A truncated line, as a kill in the middle of a write leaves it. In some rounds the file ends inside its last line.
    if (round % 3 === 0) appendFileSync(open, commandLine(spooled("torn")).subarray(0, 40 + round * 9));
    else if (round % 3 === 1) {
      appendFileSync(open, commandLine(spooled("torn")));
      truncateSync(open, readFileSync(open).length - 1 - round);
    }
    if (round % 3 < 2) torn += 1;
  }
  expect(reported.length).toBeGreaterThan(60);
  expect((await sendAll(dir)).aside).toBeGreaterThanOrEqual(torn);
  await expectQueued("torn", reported);
}, 180_000);

test("on a full disk a command fails, and no part of it is ever sent", async () => {
  const dir = join(root, "full");
  // A limit on the size of a file acts like a full disk: one write ends early, the next one fails.
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
  const reported = ids(/^spooled /);
  const refused = ids(/^UNAVAILABLE\/(ENOSPC|EFBIG) /);
  expect(reported.length).toBeGreaterThan(1);
  expect(refused.length).toBeGreaterThan(1);
  expect(reported.length + refused.length).toBe(12);
  const file = readFileSync(join(dir, "default.agent", "open"));
  expect([...linesOf(file)].map(({ kind }) => kind)).toEqual([...reported.map(() => "command"), "damaged"]);
  await sendAll(dir);
  expect((await queueMessagesOf(nats.url, "full")).map(({ body }) => body.command_id)).toEqual(reported);
}, 60_000);

test("two processes of one agent spool at the same time, and both are killed", async () => {
  const dir = join(root, "two");
  const reported: [string[], string[]] = [[], []];
  for (let round = 0; round < 4; round += 1) {
    const both = [write(NOWHERE, dir, "two-a"), write(NOWHERE, dir, "two-b")];
    await Promise.all(both.map((one) => one.until(20)));
    await Promise.all(both.map((one) => one.kill()));
    for (const [i, one] of both.entries()) reported[i]!.push(...one.reported());
  }
  await sendAll(dir);
  await expectQueued("two-a", reported[0]);
  await expectQueued("two-b", reported[1]);
}, 180_000);

test("processes that are killed while they send leave each command in the queue once, in order", async () => {
  const dir = join(root, "sending");
  const one = write(NOWHERE, dir, "sending", 600);
  await one.until(600);
  await once(one.child, "exit");
  const reported = one.reported();
  // Each process sends the spool as soon as it is connected.
  for (let round = 0; round < 6; round += 1) {
    const sender = write(nats.url, dir, "other", 1);
    const before = (await queueMessagesOf(nats.url, "sending")).length;
    if (before === reported.length) break;
    while ((await queueMessagesOf(nats.url, "sending")).length <= before && sender.child.exitCode === null);
    await sender.kill();
  }
  await sendAll(dir);
  await expectQueued("sending", reported);
  expect(existsSync(join(dir, "default.agent", "open"))).toBe(false);
}, 180_000);

test("two processes that send one spool at the same time queue each command once", async () => {
  const dir = join(root, "both");
  const one = write(NOWHERE, dir, "both", 300);
  await one.until(300);
  await once(one.child, "exit");
  await Promise.all([sendAll(dir), sendAll(dir), once(write(nats.url, dir, "other", 1).child, "exit")]);
  await expectQueued("both", one.reported());
}, 180_000);
