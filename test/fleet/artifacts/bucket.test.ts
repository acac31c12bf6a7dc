// Artifacts on the bus: two readers without a shared folder, with the credentials of `fleet access init`, and kills.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats, credsAuthenticator } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ARTIFACT_BUCKET } from "../../../shared/protocol/object-bucket.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { startClusterNats } from "../../harness/cluster-nats.ts";
import { refusedOf } from "../../harness/permission-probes.ts";
import { type Role, startService, type TestService } from "../../harness/processes/services.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { fileOf, MIB, sha256 } from "./bytes.ts";

const PROCESSES_MS = 180_000;
const POLL = { timeout: 90_000, interval: 100 };
const deadlineMs = 60_000;
const folder = mkdtempSync(join(tmpdir(), "fleet-bucket-"));
const home = join(folder, ".fleet");
const dir = join(folder, "cluster");

let nats: Awaited<ReturnType<typeof startClusterNats>>;
let writer: TestService;
let readers: TestService[] = [];
let client: FleetClient;
let credentials: string;

const fleet = (line: string) => callCli(line.split(" "), { env: { FLEET_HOME: home, FLEET_URL: nats?.url } });
const start = (role: Role) =>
  startService(role, {
    FLEET_URL: nats.url,
    FLEET_STORE: `lmdb:${folder}/store?shared`,
    FLEET_NATS_CREDS: join(dir, `${role}.creds`),
    FLEET_ARTIFACTS: "nats",
    FLEET_ARTIFACTS_BYTES: "64MiB",
    FLEET_ARTIFACTS_GRACE: "20s",
  });

beforeAll(async () => {
  const made = await fleet(`access init ${dir} --json`);
  expect({ exit: made.exit, err: made.err }).toEqual({ exit: 0, err: "" });
  nats = await startClusterNats(dir, folder);
  [writer, ...readers] = await Promise.all([start("writer"), start("reader"), start("reader")]);
  credentials = join(folder, "coder.creds");
  expect((await fleet(`access issue --agent coder --out ${credentials}`)).exit).toBe(0);
  const env = { FLEET_HOME: folder };
  client = await connect({ url: nats.url, agentId: "coder", credentials, fallback: "none", env });
}, PROCESSES_MS);

afterAll(async () => {
  await client?.close();
  await Promise.all([writer, ...readers].map((service) => service?.kill9()));
  nats?.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** What is in the bucket, as the administrator sees it. */
async function subjects(): Promise<string[]> {
  const authenticator = credsAuthenticator(readFileSync(join(dir, "reader.creds")));
  const connection = await connectNats({
    servers: nats.url,
    inboxPrefix: "_INBOX.=reader.test",
    authenticator,
  });
  const manager = await jetstreamManager(connection);
  const { state } = await manager.streams.info(ARTIFACT_BUCKET.stream, { subjects_filter: ">" });
  await connection.close();
  return Object.keys(state.subjects ?? {});
}

describe("artifacts on the bus", { timeout: PROCESSES_MS }, () => {
  test("a file is stored through any reader and read through any other, also while one is killed", async () => {
    const { path, bytes } = fileOf(folder, "large.bin", 9 * MIB + 1);
    let killed: Promise<void> | undefined;
    const onProgress = (): void => {
      killed ??= readers[0]!.kill9();
    };
    const reference = await client.artifacts.put(path, { onProgress });
    await killed;
    expect(reference.sha256).toBe(sha256(bytes));
    const task = await client.takeTask("on-the-bus");
    const { outcome } = await task.checkpoint({ ...input(), artifacts: [reference] }, { deadlineMs });
    expect(outcome).toBe("committed");
    readers.push(await start("reader"));
    const copy = join(folder, "copy.bin");
    expect(await client.artifacts.save(reference.sha256, copy)).toBe(bytes.length);
    expect(readFileSync(copy).equals(bytes)).toBe(true);
    await readers[1]!.kill9();
    expect(await client.artifacts.verify(reference.sha256)).toBe(bytes.length);
    readers = [readers[2]!, await start("reader")];
  });

  test("what no checkpoint references leaves the bucket after the grace time, and the rest stays", async () => {
    const before = (await client.artifacts.list({ deadlineMs })).artifacts;
    const loose = await client.artifacts.put(fileOf(folder, "loose", 3 * MIB).path);
    expect((await subjects()).length).toBeGreaterThanOrEqual(2 * 13);
    await expect.poll(() => client.artifacts.stat(loose.sha256, { deadlineMs }), POLL).toBeNull();
    await expect.poll(async () => (await subjects()).length, POLL).toBe(2 * 10);
    expect((await client.artifacts.list({ deadlineMs })).artifacts.map(({ sha256: one }) => one)).toEqual(
      before.map(({ sha256: one }) => one),
    );
    expect(await client.artifacts.verify(before[0]!.sha256)).toBe(9 * MIB + 1);
  });

  test("an agent has no rights on the bucket, and each service has those that it needs", async () => {
    const connection = await connectNats({
      servers: nats.url,
      inboxPrefix: "_INBOX.default.coder",
      authenticator: credsAuthenticator(readFileSync(credentials)),
    });
    const { stream, content, record } = ARTIFACT_BUCKET;
    const probes = [
      content("x"),
      record("x"),
      `$JS.API.STREAM.PURGE.${stream}`,
      `$JS.API.STREAM.MSG.GET.${stream}`,
      `$JS.API.DIRECT.GET.${stream}.${content("x")}`,
    ].map((subject) => ({ subject, direction: "publish" as const }));
    expect((await refusedOf(connection, probes)).size).toBe(probes.length);
    for (const service of [writer, ...readers])
      expect(service.output(), service.role).not.toMatch(/permissions? violation|does not permit/i);
  });
});
