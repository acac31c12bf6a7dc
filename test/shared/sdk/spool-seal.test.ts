// Sealed spools: what waits on disk is not readable, is sent by a process with the key, and stays without it.

import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { connect, type FleetWarning } from "../../../shared/sdk/sdk.ts";
import { SpoolFolder } from "../../../shared/sdk/spool/folder.ts";
import { commandLine, linesOf, type SpooledCommand } from "../../../shared/sdk/spool/line.ts";
import { SealedCommand, SpoolSeal } from "../../../shared/sdk/spool/seal.ts";
import { pendingIn } from "../../../shared/sdk/spool/spool.ts";
import { SpoolSender } from "../../../shared/sdk/spool/spool-sender.ts";
import { manualClock } from "../../harness/clock.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { queueMessagesOf } from "./queue-messages.ts";
import { spooled } from "./spool-command.ts";

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
])("with %s the sealed commands stay as they are", async (_, other) => {
  const key = newText();
  const folder = await fill(sealOf(key), [spooled("a", { body: body(CANARY) })]);
  const { bodies, aside, failure } = await sent(folder, other());
  expect({ bodies, aside }).toEqual({ bodies: [], aside: [] });
  expect(failure).toBeInstanceOf(SealedCommand);
  expect(failure).toMatchObject({
    code: "UNAVAILABLE",
    details: { setting: "FLEET_SPOOL_KEY", key_id: expect.stringMatching(/^local:/), task_id: "a" },
  });
  expect((await sent(folder, sealOf(key))).bodies).toEqual([body(CANARY).toString()]);
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

test("a client seals what it spools; one without the key warns, and one with the key sends it", async () => {
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
  await expect.poll(() => warnings.map(({ code }) => code), { timeout: 30_000 }).toEqual(["SPOOL_SEALED"]);
  await blind.close();
  expect(warnings[0]?.details).toMatchObject({ setting: "FLEET_SPOOL_KEY", task_id: "task" });

  const back = await connect({ ...settings(withKey), url: nats.url });
  expect(await back.flush({ deadlineMs: 30_000 })).toMatchObject({ commands: 0, aside: 0 });
  await back.close();
  const messages = await queueMessagesOf(nats.url, "task");
  expect(messages.map(({ text }) => text)).toEqual([expect.stringContaining(CANARY)]);
});

test("a key that cannot be read is refused before anything is spooled", async () => {
  const env = { FLEET_SPOOL_KEY: `file:${join(root, "missing")}`, HOME: root };
  await expect(connect({ url: NOWHERE, agentId: "agent", spoolDir: path, env })).rejects.toMatchObject({
    details: { setting: "FLEET_SPOOL_KEY" },
  });
});
