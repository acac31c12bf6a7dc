// Sealed spools: what waits on disk is not readable, is sent by a process with the key, and is set aside by one without it.

import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { lockFolder } from "../../../../shared/runtime/process/folder-lock.ts";
import { connect, type FleetWarning } from "../../../../shared/sdk/sdk.ts";
import { SpoolFolder } from "../../../../shared/sdk/spool/folder.ts";
import { commandLine, linesOf, type SpooledCommand } from "../../../../shared/sdk/spool/line.ts";
import { reopenSealed } from "../../../../shared/sdk/spool/reopen.ts";
import { SpoolSeal } from "../../../../shared/sdk/spool/seal.ts";
import { pendingIn } from "../../../../shared/sdk/spool/spool.ts";
import { SpoolSender } from "../../../../shared/sdk/spool/spool-sender.ts";
import { manualClock } from "../../../harness/clock.ts";
import { filesWith } from "../../../harness/encryption/raw-bytes.ts";
import { startNats, type TestNats, testLog } from "../../../harness/processes/nats.ts";
import { callCli } from "../../../services/cli/call.ts";
import { queueMessagesOf } from "../queue-messages.ts";
import { spooled } from "../spool-command.ts";

const NOWHERE = "nats://127.0.0.1:1";
const CANARY = "canary-1f6b8d02c45e7a93";
const root = mkdtempSync(join(tmpdir(), "fleet-spool-seal-"));
let nats: TestNats;
let path: string;
let at = 0;

beforeAll(async () => {
  nats = await startNats();
  const bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  await bus.close();
});
beforeEach(() => {
  at += 1;
  path = join(root, `spool-${at}`);
});
afterAll(async () => {
  await nats?.stop();
  rmSync(root, { recursive: true, force: true });
});

const newText = () => randomBytes(32).toString("base64");
const sealOf = (...keys: string[]) => {
  const env = Object.fromEntries(keys.map((text, i) => [`KEY_${i}`, text]));
  return SpoolSeal.of(keys.length === 0 ? undefined : Object.keys(env).map((name) => `env:${name}`), env);
};
const body = (text: string) => Buffer.from(JSON.stringify({ goal: text }));

async function fill(seal: SpoolSeal, commands: readonly SpooledCommand[]): Promise<SpoolFolder> {
  const folder = new SpoolFolder(path, 1024 * 1024);
  for (const command of commands) await folder.append(commandLine(command, await seal.sealingKey()));
  await folder.end();
  return folder;
}

async function sent(folder: SpoolFolder, seal: SpoolSeal) {
  const bodies: string[] = [];
  const aside: string[] = [];
  const sender = new SpoolSender({
    folder,
    clock: manualClock(),
    seal,
    send: async (command) => void bodies.push(Buffer.from(command.body).toString()),
    onRemoved: () => {},
    onAside: ({ reason }) => aside.push(reason),
  });
  const failure = await sender.run(new AbortController().signal).then(
    () => null,
    (error: unknown) => error,
  );
  return { bodies, aside, failure };
}

test("another process with the key sends what the disk does not show", async () => {
  const key = newText();
  const commands = ["a", "b", "c"].map((name) => spooled(name, { body: body(`${CANARY} ${name}`) }));
  const folder = await fill(sealOf(key), commands);
  expect(filesWith(path, CANARY)).toEqual([]);
  expect(await pendingIn(folder)).toMatchObject({ commands: 3, tasks: ["a", "b", "c"], aside: 0 });
  expect(await sent(folder, sealOf(key))).toEqual({
    bodies: commands.map((command) => command.body.toString()),
    aside: [],
    failure: null,
  });
  expect(await folder.isEmpty()).toBe(true);
});

test("plain lines of a time before are sent beside sealed ones, and sealed ones of a former key", async () => {
  const [old, next] = [newText(), newText()];
  await fill(sealOf(), [spooled("a", { body: body("plain") })]);
  await fill(sealOf(old), [spooled("b", { body: body("former") })]);
  const folder = await fill(sealOf(next, old), [spooled("c", { body: body("newest") })]);
  const { bodies, failure } = await sent(folder, sealOf(next, old));
  expect(bodies.sort()).toEqual(["former", "newest", "plain"].map((text) => body(text).toString()));
  expect(failure).toBeNull();
});

test.each([
  ["no key", () => sealOf()],
  ["another key", () => sealOf(newText())],
])(
  "with %s a sealed command is set aside, what follows is sent, and its key sends it later",
  async (_, other) => {
    const key = newText();
    await fill(sealOf(key), [spooled("a", { body: body(CANARY) })]);
    const folder = await fill(sealOf(), [
      spooled("a", { body: body("later") }),
      spooled("b", { body: body("plain") }),
    ]);
    const { bodies, aside, failure } = await sent(folder, other());
    expect({ bodies: bodies.sort(), aside, failure }).toEqual({
      bodies: ["later", "plain"].map((text) => body(text).toString()),
      aside: ["sealed"],
      failure: null,
    });
    expect(await folder.isEmpty()).toBe(true);
    expect(await pendingIn(folder)).toMatchObject({ commands: 0, aside: 1 });
    expect(filesWith(path, CANARY)).toEqual([]);

    expect(await reopenSealed(path, other())).toEqual({ reopened: 0, sealed: 1, doubtful: 0 });
    expect(await pendingIn(folder)).toMatchObject({ commands: 0, aside: 1 });
    expect(await reopenSealed(path, sealOf(newText(), key))).toEqual({ reopened: 1, sealed: 0, doubtful: 0 });
    expect(await pendingIn(folder)).toMatchObject({ commands: 1, aside: 0, tasks: ["a"] });
    expect((await sent(folder, sealOf(key))).bodies).toEqual([body(CANARY).toString()]);
  },
);

test("reopening keeps the lines that were set aside for other reasons, byte by byte", async () => {
  const key = newText();
  const folder = await fill(sealOf(key), [spooled("a", { body: body("sealed") })]);
  writeFileSync(
    join(path, "open"),
    Buffer.concat([readFileSync(join(path, "open")), Buffer.from("\ncut off")]),
  );
  expect((await sent(folder, sealOf())).aside).toEqual(["sealed", "damaged"]);
  const torn = Buffer.from("\n{ a line that a killed process left");
  writeFileSync(join(path, "aside"), Buffer.concat([readFileSync(join(path, "aside")), torn]));
  const kept = await folder.aside();
  expect(await reopenSealed(path, sealOf(key))).toEqual({ reopened: 1, sealed: 0, doubtful: 0 });
  expect(await folder.aside()).toEqual(kept.filter(({ reason }) => reason === "damaged"));
  expect(readFileSync(join(path, "aside")).subarray(-torn.length)).toEqual(torn);
  expect(await reopenSealed(path, sealOf(key))).toEqual({ reopened: 0, sealed: 0, doubtful: 0 });
});

test("a spool whose commands another process sends is not reopened", async () => {
  await fill(sealOf(), [spooled("a")]);
  const lock = lockFolder(path)!;
  try {
    await expect(reopenSealed(path, sealOf())).rejects.toMatchObject({ code: "CONFLICT" });
  } finally {
    lock.release();
  }
});

/** The same line with another part, and a right checksum. */
function changed(line: Buffer, change: (head: string, content: string) => readonly [string, string]): Buffer {
  const [head = "", content = ""] = line.toString().slice(1).split("\t");
  const [newHead, newContent] = change(head, content);
  const sum = crc32(Buffer.from(`${newHead}\t${newContent}`))
    .toString(16)
    .padStart(8, "0");
  return Buffer.from(`\n${newHead}\t${newContent}\t${sum}`);
}

test.each<[string, (head: string, content: string, other: string) => readonly [string, string]]>([
  ["to another task", (head, content) => [head.replace('"task_id":"a"', '"task_id":"b"'), content]],
  ["to another agent", (head, content) => [head.replace('"agent"', '"thief"'), content]],
  ["of another command", (head, _, other) => [head, other]],
  ["with other bytes", (head, content) => [head, `${content.slice(0, 60)}AAAA${content.slice(64)}`]],
  [
    "with another key",
    (head, content) => [head.replace(/"wrapped":"(.{40})..../, '"wrapped":"$1AAAA'), content],
  ],
])("a line that was moved %s is set aside, with a right checksum too", async (_, change) => {
  const key = newText();
  const seal = sealOf(key);
  const sealing = await seal.sealingKey();
  const other = commandLine(spooled("other", { body: body("other") }), sealing);
  const whole = commandLine(spooled("a", { body: body("mine") }), sealing);
  const folder = await fill(seal, [spooled("sound", { body: body("sound") })]);
  const line = changed(whole, (head, content) => change(head, content, other.toString().split("\t")[1]!));
  expect([...linesOf(line)]).toMatchObject([{ kind: "command" }]);
  writeFileSync(join(path, "open"), Buffer.concat([readFileSync(join(path, "open")), line]));
  expect(await sent(folder, sealOf(key))).toEqual({
    bodies: [body("sound").toString()],
    aside: ["damaged"],
    failure: null,
  });
  expect(await folder.aside()).toMatchObject([{ reason: "damaged", line: line.toString().slice(1) }]);
});

test("a client seals what it spools; one without the key sets it aside, and `fleet spool reopen` sends it with the key", async () => {
  const key = join(root, "spool.key");
  writeFileSync(key, newText(), { mode: 0o600 });
  const settings = (own: Record<string, string>, warnings: FleetWarning[] = []) => ({
    agentId: "agent",
    spoolDir: path,
    connectTimeoutMs: 200,
    onWarning: (warning: FleetWarning) => void warnings.push(warning),
    env: { HOME: root, XDG_STATE_HOME: root, FLEET_HOME: join(root, "home"), ...own },
  });
  const withKey = { FLEET_SPOOL_KEY: `file:${key}` };
  const away = await connect({ ...settings(withKey), url: NOWHERE });
  const outcome = await away.createCheckpoint({
    taskId: "task",
    checkpoint: {
      metadata: { agent_type: "qa" },
      execution_state: { phase: "testing", goal: CANARY },
    },
  });
  expect(outcome.outcome).toBe("spooled");
  await away.close();
  expect(filesWith(path, CANARY)).toEqual([]);

  const warnings: FleetWarning[] = [];
  const blind = await connect({ ...settings({}, warnings), url: nats.url });
  await expect.poll(() => warnings.map(({ code }) => code), { timeout: 30_000 }).toEqual(["SPOOL_SET_ASIDE"]);
  expect(await blind.flush({ deadlineMs: 30_000 })).toMatchObject({ commands: 0, aside: 1 });
  await blind.close();
  expect(warnings[0]?.details).toMatchObject({
    reason: "sealed",
    setting: "FLEET_SPOOL_KEY",
    key_id: expect.stringMatching(/^local:/),
    task_id: "task",
  });
  expect(filesWith(path, CANARY)).toEqual([]);

  const env = { HOME: root, XDG_STATE_HOME: root, FLEET_HOME: join(root, "home"), FLEET_SPOOL_DIR: path };
  const status = await callCli(["spool", "status"], { env });
  expect(status.out).toContain("fleet spool reopen");
  const without = await callCli(["spool", "reopen", "--json", "--url", nats.url], { env });
  expect(without.exit).toBe(69);
  expect(JSON.parse(without.out)).toEqual({ reopened: 0, sealed: 1, doubtful: 0, remaining: 0 });
  const reopened = await callCli(["spool", "reopen", "--json", "--url", nats.url], {
    env: { ...env, ...withKey },
  });
  expect({ exit: reopened.exit, ...JSON.parse(reopened.out) }).toEqual({
    exit: 0,
    reopened: 1,
    sealed: 0,
    doubtful: 0,
    remaining: 0,
  });
  const messages = await queueMessagesOf(nats.url, "task");
  expect(messages.map(({ text }) => text)).toEqual([expect.stringContaining(CANARY)]);
});

test("`fleet spool flush` without the key says that it has set the command aside, and sent none", async () => {
  const key = join(root, "spool.key");
  writeFileSync(key, newText(), { mode: 0o600 });
  const env = { HOME: root, XDG_STATE_HOME: root, FLEET_HOME: join(root, "home"), FLEET_SPOOL_DIR: path };
  const away = await connect({
    agentId: "agent",
    spoolDir: path,
    connectTimeoutMs: 200,
    env: { ...env, FLEET_SPOOL_KEY: `file:${key}` },
    url: NOWHERE,
  });
  await away.createCheckpoint({
    taskId: "task",
    checkpoint: {
      metadata: { agent_type: "qa" },
      execution_state: { phase: "testing", goal: CANARY },
    },
  });
  await away.close();
  const flushed = await callCli(["spool", "flush", "--json", "--url", nats.url], { env });
  expect({ exit: flushed.exit, ...JSON.parse(flushed.out) }).toMatchObject({
    exit: 69,
    sent: 0,
    remaining: 0,
    aside: 1,
  });
});

test("a key that cannot be read is refused before anything is spooled", async () => {
  const env = { FLEET_SPOOL_KEY: `file:${join(root, "missing")}`, HOME: root };
  await expect(connect({ url: NOWHERE, agentId: "agent", spoolDir: path, env })).rejects.toMatchObject({
    details: { setting: "FLEET_SPOOL_KEY" },
  });
});
