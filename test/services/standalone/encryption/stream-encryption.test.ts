// A nats-server that encrypts its streams, with a key that only a root key opens.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AckPolicy, jetstream, jetstreamManager, StorageType } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterEach, expect, test } from "vitest";
import {
  type NatsServer,
  type NatsServerOptions,
  startNatsServer,
} from "../../../../services/standalone/nats/server.ts";
import { encryptStreams } from "../../../../services/standalone/nats/stream-conversion.ts";
import { streamFiles } from "../../../../services/standalone/nats/stream-folder.ts";
import { adoptStreams } from "../../../../shared/bus/access/stream-accounts.ts";
import type { KeyEncryptionKeys } from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { openRootKeys } from "../../../../shared/integrity/encryption/root-keys.ts";
import { newEncryptionKeyFile } from "../../../../shared/sdk/encryption/key-file.ts";
import { filesWith } from "../../../harness/encryption/raw-bytes.ts";
import { TransitServer } from "../../../harness/encryption/transit-server.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { projectRoot } from "../../../harness/project-root.ts";

const CANARY = "canary-8d1f5b0c9e7a4432";
const STREAM = "WORK";
const CONSUMER = "workers";
const MESSAGES = 40;
const TAKEN = 7;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "fleet-stream-encryption-"));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

function keySource(): string {
  const path = join(folder(), "key");
  newEncryptionKeyFile(path);
  return `file:${path}`;
}

const open = (...sources: string[]) =>
  openRootKeys(sources, { setting: "FLEET_ENCRYPTION_KEY", env: { VAULT_TOKEN: "token-1" } });

async function started(dir: string, rootKeys?: KeyEncryptionKeys, more: Partial<NatsServerOptions> = {}) {
  const server = await startNatsServer({
    ...{ root: projectRoot, env: process.env, dir, port: -1, log: testLog, rootKeys },
    ...more,
  });
  cleanups.push(() => server.stop());
  return server;
}

async function connected<T>(
  server: NatsServer,
  work: (connection: NatsConnection) => Promise<T>,
): Promise<T> {
  const connection = await connect({ servers: server.url });
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}

/** A stream with canaries, of which a durable consumer has taken some. */
const fill = (server: NatsServer, messages = MESSAGES, padding = 0) =>
  connected(server, async (connection) => {
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name: STREAM, subjects: ["work.>"], storage: StorageType.File });
    await manager.consumers.add(STREAM, { durable_name: CONSUMER, ack_policy: AckPolicy.Explicit });
    const js = jetstream(connection);
    for (let at = 0; at < messages; at += 1)
      await js.publish(`work.${at}`, `${CANARY} ${at} ${"x".repeat(padding)}`);
    const consumer = await js.consumers.get(STREAM, CONSUMER);
    for await (const message of await consumer.fetch({ max_messages: TAKEN })) await message.ackAck();
  });

/** What a client finds: the number of messages, that of the last one, and what the consumer has left. */
const found = (server: NatsServer) =>
  connected(server, async (connection) => {
    const manager = await jetstreamManager(connection);
    const { state } = await manager.streams.info(STREAM);
    const last = await manager.streams.getMessage(STREAM, { last_by_subj: `work.${state.messages - 1}` });
    const { num_pending } = await manager.consumers.info(STREAM, CONSUMER);
    return { messages: state.messages, last: Number(last?.string().split(" ")[1]), left: num_pending };
  });

const complete = (messages = MESSAGES) => ({ messages, last: messages - 1, left: messages - TAKEN });

test("no file has what the streams hold, and the key is in no file and on no command line", async () => {
  const plainDir = folder();
  await fill(await started(plainDir));
  expect(filesWith(plainDir, CANARY), "the search must find plain content").not.toEqual([]);

  const dir = folder();
  const source = keySource();
  const server = await started(dir, await open(source));
  await fill(server);
  expect(await found(server)).toEqual(complete());
  const environment = readFileSync(`/proc/${server.pid}/environ`, "utf8");
  const key = /STREAM_KEY="([0-9a-f]{64})"/.exec(environment)?.[1] ?? "";
  expect(key).not.toBe("");
  expect(readFileSync(`/proc/${server.pid}/cmdline`, "utf8")).not.toContain(key);
  server.kill("SIGKILL");
  await server.exited;
  expect(filesWith(dir, CANARY)).toEqual([]);
  expect(filesWith(dir, key)).toEqual([]);
  expect(streamFiles(join(dir, "store")).plain).toEqual([]);
  const again = await started(dir, await open(source));
  // The server syncs the position of a consumer later than the messages.
  expect(await found(again)).toMatchObject({ messages: MESSAGES, last: MESSAGES - 1 });
  await again.stop();
  expect(filesWith(dir, CANARY)).toEqual([]);
});

test("plain streams are encrypted at the next start, with the positions of their consumers", async () => {
  const dir = folder();
  const plain = await started(dir);
  await fill(plain);
  await plain.stop();
  expect(filesWith(dir, CANARY)).not.toEqual([]);
  const source = keySource();
  const server = await started(dir, await open(source));
  expect(await found(server)).toEqual(complete());
  expect(filesWith(dir, CANARY)).toEqual([]);
  expect(readdirSync(dir).filter((name) => name.startsWith("store"))).toEqual(["store"]);
  await server.stop();
  expect(await found(await started(dir, await open(source)))).toEqual(complete());
});

test("a fleet that is killed while it encrypts its streams loses nothing", async () => {
  const dir = folder();
  const plain = await started(dir);
  const messages = 300;
  await fill(plain, messages, 20_000);
  await plain.stop();
  const source = keySource();
  const program = join(projectRoot, "test/services/standalone/encryption/encrypting-server.program.ts");
  let whole = false;
  let kills = 0;
  for (let ms = 10; !whole; ms *= 1.4) {
    // Each time a little later, until the server is ready before the kill.
    const args = [program, dir, source, String(ms)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (text: Buffer) => {
      output += text.toString();
    });
    await once(child, "close");
    whole = output.includes("ready");
    if (!whole) kills += 1;
  }
  expect(kills).toBeGreaterThan(0);
  const server = await started(dir, await open(source));
  expect(await found(server)).toEqual(complete(messages));
  expect(filesWith(dir, CANARY)).toEqual([]);
}, 300_000);

test("streams that the server leaves plain are named, and stay as they are", async () => {
  const dir = folder();
  const plain = await started(dir);
  await fill(plain);
  await plain.stop();
  const before = filesWith(dir, CANARY);
  await expect(encryptStreams(dir, async () => {})).rejects.toMatchObject({
    message: "nats-server has left streams unencrypted",
    details: { dir, plain: 3, first: expect.stringContaining(`streams/${STREAM}`) },
    // Fleet has refused an old server before this step. The key of the streams exists by now, so a start without the setting is refused.
    hint: expect.not.stringMatching(/\d\.\d|FLEET_ENCRYPTION_KEY/),
  });
  expect(filesWith(dir, CANARY)).toEqual(before);
  expect(await found(await started(dir))).toEqual(complete());
});

test("the folders of encrypted streams have the modes of the plain ones", async () => {
  const dir = folder();
  const plain = await started(dir);
  await fill(plain);
  await plain.stop();
  const mode = (path: string) => statSync(join(dir, path)).mode & 0o777;
  const folders = [
    "store",
    ...["jetstream", "jetstream/$G", `jetstream/$G/streams/${STREAM}`].map((path) => join("store", path)),
  ];
  const former = folders.map(mode);
  expect(former[0], "the server closes its folder to others").toBe(0o700);
  await (await started(dir, await open(keySource()))).stop();
  expect(streamFiles(join(dir, "store")).encrypted).toBeGreaterThan(0);
  expect(folders.map(mode)).toEqual(former);
});

test("a kill between the two steps of the exchange leaves the encrypted streams", async () => {
  const dir = folder();
  const plain = await started(dir);
  await fill(plain);
  await plain.stop();
  const source = keySource();
  cpSync(join(dir, "store"), join(dir, "before"), { recursive: true });
  await (await started(dir, await open(source))).stop();
  renameSync(join(dir, "store"), join(dir, "store.encrypting"));
  renameSync(join(dir, "before"), join(dir, "store.plain"));
  const server = await started(dir, await open(source));
  expect(await found(server)).toEqual(complete());
  expect(readdirSync(dir).filter((name) => name.startsWith("store"))).toEqual(["store"]);
  expect(filesWith(dir, CANARY)).toEqual([]);
});

test("encrypted streams are refused without their key, and are unchanged", async () => {
  const dir = folder();
  const source = keySource();
  const first = await started(dir, await open(source));
  await fill(first);
  await first.stop();
  const file = join(dir, "stream-key.json");
  const stored = readFileSync(file, "utf8");
  await expect(started(dir)).rejects.toMatchObject({
    exitCode: 78,
    message: "the streams of the bus are encrypted",
    details: { setting: "FLEET_ENCRYPTION_KEY", root_key: expect.stringMatching(/^local:/) },
  });
  await expect(started(dir, await open(keySource()))).rejects.toMatchObject({
    exitCode: 78,
    message: "the root key of a file is not named",
  });
  writeFileSync(file, stored.replace(/"wrapped":"(.{40})..../, '"wrapped":"$1AAAA'));
  await expect(started(dir, await open(source))).rejects.toMatchObject({
    message: "the wrapped key does not unwrap",
  });
  rmSync(file);
  await expect(started(dir)).rejects.toMatchObject({ message: "the streams of the bus are encrypted" });
  await expect(started(dir, await open(source))).rejects.toMatchObject({
    message: "the key of the encrypted streams is lost",
  });
  writeFileSync(file, stored);
  expect(await found(await started(dir, await open(source)))).toEqual(complete());
});

test("a new root key takes over at a start, and the former one is needed no more", async () => {
  const dir = folder();
  const [old, next] = [keySource(), keySource()];
  const first = await started(dir, await open(old));
  await fill(first);
  await first.stop();
  await (await started(dir, await open(next, old))).stop();
  const server = await started(dir, await open(next));
  expect(await found(server)).toEqual(complete());
  await server.stop();
  await expect(started(dir, await open(old))).rejects.toMatchObject({ exitCode: 78 });
});

test("a root key on a server wraps the key of the streams; without an answer the fleet does not start", async () => {
  const transit = await TransitServer.start();
  cleanups.push(() => transit.close());
  const dir = folder();
  const first = await started(dir, await open(transit.source));
  await fill(first);
  await first.stop();
  expect(await found(await started(dir, await open(transit.source)))).toEqual(complete());
  transit.faults.push(503, 503, 503);
  await expect(started(folder(), await open(transit.source))).rejects.toMatchObject({
    exitCode: 69,
    message: "the server of the root key cannot use it now",
  });
});

test("encrypted streams do not get another account, under which the server could not open them", async () => {
  const dir = folder();
  const first = await started(dir, await open(keySource()));
  await fill(first);
  await first.stop();
  const account = `A${"B".repeat(55)}`;
  expect(() => adoptStreams(join(dir, "store"), account)).toThrow(
    "the encrypted streams belong to another account",
  );
  expect(existsSync(join(dir, "store", "jetstream", "$G", "streams", STREAM))).toBe(true);
});
