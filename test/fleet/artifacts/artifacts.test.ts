// Artifacts of a real fleet: uploads, references, other tenants, damage on the disk, hostile input and limits.

import { readdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { type FleetClient, FleetError, runAgent } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { fileOf, MIB, newFolder, partsOfSize, sha256, uploadsOf } from "./bytes.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 120_000;
const POLL = { timeout: 60_000, interval: 50 };
const deadlineMs = 30_000;

let server: TestFleet;
let client: FleetClient;
let folder: string;

beforeAll(async () => {
  folder = newFolder();
  server = await startFleet({ FLEET_ARTIFACTS_BYTES: "24MiB" });
  client = await server.client("agent-1");
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const refused = async (work: Promise<unknown>): Promise<FleetError> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(FleetError);
  return error as FleetError;
};

describe("artifacts", { timeout: CALLS_MS }, () => {
  test("a task attaches a file, its next checkpoint references it, and another agent reads the same bytes", async () => {
    const { path, bytes } = fileOf(folder, "report.pdf", 2 * MIB + 12_345);
    const task = await client.takeTask("attach");
    const reference = await task.attach(path, { mediaType: "application/pdf" });
    expect(reference).toEqual({
      media_type: "application/pdf",
      name: "report.pdf",
      sha256: sha256(bytes),
      size: bytes.length,
    });
    const first = await task.checkpoint(input(), { deadlineMs });
    expect(first.outcome).toBe("committed");
    await task.checkpoint(input({ goal: "without it" }), { deadlineMs });

    const reader = await server.client("agent-2");
    const checkpoint = await reader.getCheckpoint(first.checkpointId, { deadlineMs });
    expect(checkpoint?.artifacts).toEqual([reference]);
    expect((await task.resume({ deadlineMs }))?.artifacts).toBeUndefined();
    const copy = join(folder, "copy.pdf");
    expect(await reader.artifacts.save(reference.sha256, copy)).toBe(bytes.length);
    expect(readFileSync(copy).equals(bytes)).toBe(true);
    expect(await reader.artifacts.stat(reference.sha256)).toMatchObject({
      stored_by: "agent-1",
      references: [{ task_id: "attach", checkpoint_id: first.checkpointId }],
    });
  });

  test("a stream and an empty file are stored under the hash of their bytes", async () => {
    const chunks = [Buffer.alloc(700_000, 1), Buffer.alloc(600_000, 2), Buffer.from("end")];
    async function* source() {
      yield* chunks;
    }
    const reference = await client.artifacts.put(source(), { name: "log.txt", mediaType: "text/plain" });
    expect(reference.sha256).toBe(sha256(Buffer.concat(chunks)));
    expect(await client.artifacts.verify(reference.sha256)).toBe(1_300_003);

    const { path } = fileOf(folder, "empty", 0);
    const empty = await client.artifacts.put(path);
    expect(await client.artifacts.verify(empty.sha256)).toBe(0);
    expect(await refused(client.artifacts.put(source()))).toMatchObject({ code: "INVALID" });
  });

  test("a run of an agent keeps the artifact in all later checkpoints, also those of the next agent", async () => {
    const { path } = fileOf(folder, "model.bin", 5_000);
    const agent = async (items: number): Promise<void> => {
      await runAgent({
        type: "implementation",
        task: "run-1",
        fleet: await server.client(`runner-${items}`),
        begin: { goal: "train", pending_items: ["one", "two"] },
        async work(run) {
          if (items === 1) await run.attach(path);
          await run.done(`item ${items}`);
          await run.checkpoint();
          if (items === 1) await run.handOff();
        },
      }).catch(() => {});
    };
    await agent(1);
    const named = async () =>
      (await client.task("run-1").resume({ deadlineMs }))?.artifacts?.map(({ name }) => name);
    expect(await named()).toEqual(["model.bin"]);
    await agent(2);
    expect(await named()).toEqual(["model.bin"]);
  });

  test("a checkpoint that references what is not stored, or another size, is refused and changes nothing", async () => {
    const { path } = fileOf(folder, "size.bin", 100);
    const stored = await client.artifacts.put(path);
    const absent = { ...stored, sha256: "0".repeat(64) };
    const other = { ...stored, size: 99 };
    const error = await refused(
      client.task("refused").checkpoint({ ...input(), artifacts: [stored, absent, other] }, { deadlineMs }),
    );
    expect(error).toMatchObject({
      code: "INVALID",
      fields: [
        { path: "checkpoint.artifacts.1.sha256", expected: "an artifact that is stored" },
        { path: "checkpoint.artifacts.2.size", expected: "100, the size of the artifact" },
      ],
    });
    expect(await client.getTask("refused", { deadlineMs })).toBeNull();

    const task = await client.takeTask("patched");
    const { checkpointId } = await task.checkpoint(input(), { deadlineMs });
    const patched = await refused(task.update(checkpointId, { artifacts: [absent] }, { deadlineMs }));
    expect(patched.fields?.[0]?.path).toBe("patch.artifacts.0.sha256");
    expect(await task.update(checkpointId, { artifacts: [stored] }, { deadlineMs })).toMatchObject({
      version: 2,
    });
  });

  test("two uploads of the same bytes at the same time store them once", async () => {
    const { path, bytes } = fileOf(folder, "twice.bin", 3 * MIB);
    const other = await server.client("agent-2");
    const before = uploadsOf(server.home).length;
    const [one, two] = await Promise.all([client.artifacts.put(path), other.artifacts.put(path)]);
    expect(one).toEqual(two);
    await expect.poll(() => uploadsOf(server.home).length, POLL).toBe(before + 1);
    expect(await other.artifacts.verify(sha256(bytes))).toBe(bytes.length);
    await other.artifacts.put(path);
    expect(uploadsOf(server.home)).toHaveLength(before + 1);
  });

  test("another tenant sees, references and replaces nothing", async () => {
    const { path, bytes } = fileOf(folder, "secret.bin", 40_000);
    const reference = await client.artifacts.put(path);
    const foreign = await server.client("agent-1", "quokka");
    expect(await foreign.artifacts.stat(reference.sha256)).toBeNull();
    expect(await refused(foreign.artifacts.verify(reference.sha256))).toMatchObject({ code: "NOT_FOUND" });
    expect((await foreign.artifacts.list()).artifacts).toEqual([]);
    const checkpoint = { ...input(), artifacts: [reference] };
    expect(await refused(foreign.task("stolen").checkpoint(checkpoint, { deadlineMs }))).toMatchObject({
      code: "INVALID",
    });
    await foreign.artifacts.put(path);
    for (const { folder: upload } of uploadsOf(server.home, "quokka")) writeFileSync(join(upload, "0"), "x");
    expect(await refused(foreign.artifacts.verify(reference.sha256))).toMatchObject({ code: "CORRUPT" });
    expect(await client.artifacts.verify(reference.sha256)).toBe(bytes.length);
  });

  test("damage is found at the read, and no file appears", async () => {
    const sizes = { flipped: 60_001, cut: 60_002, linked: 60_003, lost: 60_004 };
    const hashes = new Map<number, string>();
    for (const [name, size] of Object.entries(sizes)) {
      hashes.set(size, (await client.artifacts.put(fileOf(folder, name, size).path)).sha256);
    }
    const partOf = (size: number): string => partsOfSize(server.home, size)[0]!;
    const flipped = partOf(sizes.flipped);
    const bytes = readFileSync(flipped);
    bytes[1_000]! ^= 1;
    writeFileSync(flipped, bytes);
    const [cut, linked, lost] = [partOf(sizes.cut), partOf(sizes.linked), partOf(sizes.lost)];
    truncateSync(cut, 10);
    const outside = fileOf(folder, "outside", sizes.linked).path;
    rmSync(linked);
    symlinkSync(outside, linked);
    rmSync(lost);
    for (const size of Object.values(sizes)) {
      const out = join(folder, `damaged-${size}`);
      expect(await refused(client.artifacts.save(hashes.get(size)!, out))).toMatchObject({ code: "CORRUPT" });
      expect(readdirSync(folder).filter((name) => name.startsWith("damaged-"))).toEqual([]);
    }
  });

  test("an upload of the same bytes replaces a flipped bit and lost parts, and the references stay", async () => {
    const size = 2 * MIB + 4_099;
    const { path, bytes } = fileOf(folder, "repaired.bin", size);
    const reference = await client.artifacts.put(path);
    const task = await client.takeTask("repaired");
    const { checkpointId } = await task.checkpoint({ ...input(), artifacts: [reference] }, { deadlineMs });
    const { total_bytes: before } = await client.artifacts.list({ deadlineMs });
    const damages = [
      () => {
        const part = partsOfSize(server.home, size)[1]!;
        const stored = readFileSync(part);
        stored[77]! ^= 4;
        writeFileSync(part, stored);
      },
      () => rmSync(partsOfSize(server.home, size)[2]!),
    ];
    const other = await server.client("agent-2");
    for (const damage of damages) {
      // The readers have just verified the bytes, and damage that is newer counts nevertheless.
      await Promise.all([client.artifacts.put(path), other.artifacts.put(path)]);
      damage();
      expect(await refused(client.artifacts.verify(reference.sha256))).toMatchObject({ code: "CORRUPT" });
      await Promise.all([client.artifacts.put(path), other.artifacts.put(path)]);
      expect(await client.artifacts.verify(reference.sha256)).toBe(bytes.length);
    }
    expect(await client.artifacts.stat(reference.sha256)).toMatchObject({
      stored_by: "agent-1",
      references: [{ task_id: "repaired", checkpoint_id: checkpointId }],
    });
    await expect.poll(() => partsOfSize(server.home, size).length, POLL).toBe(3);
    expect((await client.artifacts.list({ deadlineMs })).total_bytes).toBe(before);
    const { entries } = await client.admin.tenantAudit({ limit: 500, deadlineMs });
    const acts = entries.map(({ entry }) => JSON.parse(entry) as { action: string; subject: object });
    const subject = { sha256: reference.sha256, size };
    expect(acts.filter(({ action }) => action === "artifact_repair").map((act) => act.subject)).toEqual([
      subject,
      subject,
    ]);
  });

  test.each(["", ".", "..", "../up", "a/b", "a\\b", "line\nfeed", "nul\0", "esc\u001b[2J", "x".repeat(256)])(
    "the name %j is refused",
    async (name) => {
      const { path } = fileOf(folder, "named", 10);
      const error = await refused(client.artifacts.put(path, { name }));
      expect(error).toMatchObject({ code: "INVALID", fields: [{ path: "name" }] });
      const stored = await client.artifacts.put(path);
      const checkpoint = { ...input(), artifacts: [{ ...stored, name }] };
      expect(await refused(client.task("named").checkpoint(checkpoint, { deadlineMs }))).toMatchObject({
        code: "INVALID",
      });
    },
  );

  test("bytes with another hash than stated are no artifact, and only their caller may add to an upload", async () => {
    const { bus, nats } = await rawBus();
    const upload_id = uuidv7();
    const claim = "1".repeat(64);
    const begun = await bus("artifact_begin", { upload_id, sha256: claim, size: 3 });
    expect(begun).toMatchObject({ status: "ok", result: { stored: false } });
    const part = { upload_id, part: 0, bytes: Buffer.from("abc").toString("base64") };
    expect(await bus("artifact_part", part, "agent-10")).toMatchObject({ error: { code: "NOT_FOUND" } });
    expect(await bus("artifact_part", { ...part, part: 1 })).toMatchObject({ error: { code: "INVALID" } });
    expect(await bus("artifact_part", { ...part, bytes: "YQ==" })).toMatchObject({
      error: { code: "INVALID" },
    });
    expect(await bus("artifact_commit", { upload_id, sha256: claim })).toMatchObject({
      error: { code: "CONFLICT", details: { part: 0 } },
    });
    expect(await bus("artifact_part", part)).toMatchObject({ status: "ok" });
    expect(await bus("artifact_part", part)).toMatchObject({ status: "ok" });
    const changed = { ...part, bytes: Buffer.from("abd").toString("base64") };
    expect(await bus("artifact_part", changed)).toMatchObject({ error: { code: "CONFLICT" } });
    expect(await bus("artifact_commit", { upload_id, sha256: claim })).toMatchObject({
      error: { code: "INVALID", fields: [{ path: "sha256", expected: "the hash of the bytes" }] },
    });
    expect(await client.artifacts.stat(claim)).toBeNull();
    expect(uploadsOf(server.home).some(({ folder: one }) => one.endsWith(upload_id))).toBe(false);
    await nats.close();
  });

  test("limits: the total of a tenant, and the references of a checkpoint", async () => {
    const other = await server.client("agent-1", "numbat");
    await other.artifacts.put(fileOf(folder, "large", 20 * MIB).path);
    const { path } = fileOf(folder, "more", 5 * MIB);
    expect(await refused(other.artifacts.put(path))).toMatchObject({
      code: "TOO_LARGE",
      details: { total_bytes: 20 * MIB, total_bytes_max: 24 * MIB, size: 5 * MIB },
    });
    const small = await other.artifacts.put(fileOf(folder, "small", 10).path);
    const artifacts = Array.from({ length: LIMITS.artifact_count_max + 1 }, (_, n) => ({
      ...small,
      name: `copy-${n}`,
    }));
    const checkpoint = { ...input(), artifacts };
    expect(await refused(other.task("many").checkpoint(checkpoint, { deadlineMs }))).toMatchObject({
      code: "INVALID",
      fields: [{ path: "checkpoint.artifacts" }],
    });
  });

  test("the command line stores, lists, verifies and fetches", async () => {
    const { path, bytes } = fileOf(folder, "cli.txt", 1_500);
    const fleet = (...args: string[]) =>
      callCli(args, { env: { FLEET_URL: server.url, FLEET_HOME: server.home, COLUMNS: "160" } });
    const put = await fleet("artifact", "put", path, "--media-type", "text/plain", "--json");
    expect(put).toMatchObject({ exit: 0, err: "" });
    const hash = sha256(bytes);
    expect(JSON.parse(put.out)).toEqual({
      media_type: "text/plain",
      name: "cli.txt",
      sha256: hash,
      size: 1_500,
    });
    expect((await fleet("artifact", "list", "--limit", "100")).out).toContain(`${hash}  `);
    expect(await fleet("artifact", "verify", hash)).toMatchObject({ exit: 0, err: "" });
    const out = join(folder, "fetched");
    expect(await fleet("artifact", "get", hash, "--out", out)).toMatchObject({ exit: 0, err: "" });
    expect(readFileSync(out).equals(bytes)).toBe(true);
    writeFileSync(out, "mine");
    const refused = await fleet("artifact", "get", hash, "--out", out);
    expect([refused.exit, refused.err]).toEqual([64, expect.stringContaining("--force")]);
    expect(readFileSync(out, "utf8")).toBe("mine");
    expect((await fleet("artifact", "get", hash, "--out", out, "--force")).exit).toBe(0);
    expect(readFileSync(out).equals(bytes)).toBe(true);
    const other = join(folder, "other");
    const absent = await fleet("artifact", "get", "0".repeat(64), "--out", other);
    expect(absent).toMatchObject({ exit: 4, out: "", err: expect.stringContaining("fleet artifact list") });
    expect(await fleet("artifact", "get", "0", "--out", other)).toMatchObject({ exit: 64 });
    const words = ["--type", "qa", "--phase", "testing", "--attach", path, "-q"];
    const written = await fleet("checkpoint", "-t", "cli-1", ...words, "--timeout", "30s");
    expect(written).toMatchObject({ exit: 0, err: "" });
    expect((await client.getCheckpoint(written.out.trim(), { deadlineMs }))?.artifacts).toMatchObject([
      { name: "cli.txt", sha256: hash },
    ]);
    expect(await fleet("checkpoint", "-t", "cli-1", ...words.with(5, join(folder, "absent")))).toMatchObject({
      exit: 64,
    });
    expect(await fleet("artifact", "put", join(folder, "absent"))).toMatchObject({ exit: 64 });
    truncateSync(partsOfSize(server.home, 1_500)[0]!, 1);
    const damaged = await fleet("artifact", "verify", hash);
    expect(damaged).toMatchObject({ exit: 8, out: "", err: expect.stringContaining("artifact put FILE") });
  });
});

/** Requests as a program without the SDK sends them. */
async function rawBus() {
  const { connect } = await import("@nats-io/transport-node");
  const { administratorAuthenticator } = await import("../../harness/credentials.ts");
  const authenticator = await administratorAuthenticator(server.home);
  const connections = new Map<string, Awaited<ReturnType<typeof connect>>>();
  const connectionOf = async (caller: string) => {
    const inboxPrefix = `_INBOX.default.${caller}`;
    const known =
      connections.get(caller) ?? (await connect({ servers: server.url, inboxPrefix, authenticator }));
    connections.set(caller, known);
    return known;
  };
  const bus = async (op: string, body: object, caller = "agent-9"): Promise<Record<string, unknown>> => {
    const connection = await connectionOf(caller);
    const subject = `fleet.query.default.${caller}.${op}`;
    return (await connection.request(subject, JSON.stringify(body), { timeout: deadlineMs })).json();
  };
  const close = async () => void (await Promise.all([...connections.values()].map((one) => one.close())));
  return { bus, nats: { close } };
}
