/**
 * Attacks of someone who can write to the store and has the key of the fleet, against a third party that holds nothing
 * but an anchored checkpoint, its time-stamp, and the certificate of the authority.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { timestampRequest } from "../../../../shared/integrity/timestamp/timestamp-request.ts";
import { judgeTimestamp } from "../../../../shared/integrity/timestamp/timestamp-response.ts";
import { judgeContinuation, keptCheckpoint } from "../../../../shared/transfer/audit-receipt.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { create, ENGINES } from "../../../harness/records/records.ts";
import { dump, restoreRows } from "../../../harness/records/rows.ts";
import { openSignedRecords, type SignedRecords } from "../../../harness/records/signed.ts";
import { rewriteChainOf, rewriteLogOf } from "./attack-edits.ts";
import { appendAll } from "./logs.ts";

/** What the third party has. */
interface Anchored {
  readonly note: string;
  readonly token: Uint8Array;
}

let authority: TimestampAuthority;
beforeAll(async () => {
  authority = await TimestampAuthority.start();
});
afterAll(() => authority.close());

async function stampedBy(one: TimestampAuthority, note: string): Promise<Anchored> {
  const { bytes } = await timestampRequest(Buffer.from(note));
  return { note, token: one.reply(bytes) };
}

const judged = ({ note, token }: Anchored) =>
  judgeTimestamp(token, Buffer.from(note), { authorities: [authority.ca], nonce: null });

describe.each(ENGINES)("on %s", (engine) => {
  let records: SignedRecords;
  let anchored: Anchored;
  beforeEach(async () => {
    records = await openSignedRecords(engine);
    for (let i = 0; i < 3; i += 1) await create(records.repository);
    await appendAll(records.store);
    anchored = await stampedBy(authority, await checkpoint());
  });
  afterEach(() => records.close());

  const checkpoint = async () => (await records.repository.auditLogs.state("default", {})).checkpoint!;
  const continues = async (note: string) => {
    const publicKeys = [records.key.publicKey];
    const since_size = keptCheckpoint(note, publicKeys)?.size ?? 0;
    const log = await records.repository.auditLogs.state("default", { since_size });
    return judgeContinuation(note, log, { kept: publicKeys, newest: publicKeys });
  };

  test("a sound store continues the anchored checkpoint", async () => {
    await create(records.repository);
    await appendAll(records.store);
    expect((await judged(anchored)).problem).toBeNull();
    expect(await continues(anchored.note)).toBeNull();
  });

  test("a history that was written again with the fleet's own key", async () => {
    await rewriteChainOf(records.raw, "task-1");
    await rewriteLogOf(records);
    expect(await continues(anchored.note)).toContain(
      "does not begin with the entries of the kept checkpoint",
    );
    // The time-stamp of the true history is none for the new one.
    const forged = await checkpoint();
    expect(forged).not.toBe(anchored.note);
    expect((await judged({ note: forged, token: anchored.token })).problem).toBe("it is of another content");
  });

  test("an older copy of the store, also after further work", async () => {
    const copy = await dump(records.raw);
    for (let i = 0; i < 3; i += 1) await create(records.repository);
    await appendAll(records.store);
    const newer = await stampedBy(authority, await checkpoint());
    await restoreRows(records.raw, copy);
    expect((await judged(newer)).problem).toBeNull();
    expect(await continues(newer.note)).toContain("the store is an older copy, or its log was cut off");
    for (let i = 0; i < 9; i += 1) await create(records.repository, { task: `other-${i}` });
    await appendAll(records.store);
    expect(await continues(newer.note)).toContain("does not begin with the entries of the kept checkpoint");
  });

  test("a backdated history gets no time-stamp of its pretended time", async () => {
    const pretended = "2020-01-01T00:00:00.000Z";
    const startMs = Date.now();
    await rewriteChainOf(records.raw, "task-1", { at: pretended });
    await rewriteLogOf(records);
    const forged = await checkpoint();
    const { entry } = await records.repository.auditLogs.prove("default", { task_id: "task-1", seq: 1 });
    expect(JSON.parse(entry).at).toBe(pretended);
    // The authority names its own time, which is not before the attack. It has whole seconds.
    const { problem, at } = await judged(await stampedBy(authority, forged));
    expect(problem).toBeNull();
    expect(Date.parse(at!)).toBeGreaterThan(startMs - 1_000);
    // An authority of the attacker's own may name any time, and no one trusts it.
    const own = await TimestampAuthority.start();
    try {
      expect((await judged(await stampedBy(own, forged))).problem).toContain("its signature is not valid");
    } finally {
      await own.close();
    }
  });

  test("an entry that was inserted later stands behind the anchored checkpoint, also if it names an earlier time", async () => {
    await create(records.repository, { task: "late" });
    await rewriteChainOf(records.raw, "late", { at: "2020-01-01T00:00:00.000Z" });
    await appendAll(records.store);
    const { index, entry } = await records.repository.auditLogs.prove("default", { task_id: "late", seq: 1 });
    const { at } = await judged(anchored);
    expect(JSON.parse(entry).at < at!).toBe(true);
    expect(index).toBeGreaterThanOrEqual(keptCheckpoint(anchored.note, [records.key.publicKey])!.size);
  });
});
