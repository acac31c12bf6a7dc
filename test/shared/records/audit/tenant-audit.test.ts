/** The audit chain of a tenant: one entry for each act with an effect, and the scrub that finds damage in the chain. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText, sha256Hex } from "../../../../shared/integrity/canonical.ts";
import { createChainVerifier } from "../../../../shared/integrity/chain.ts";
import { roleOperations } from "../../../../shared/protocol/operation-rights.ts";
import { DEFAULT_POLICIES, type Policies } from "../../../../shared/protocol/policy.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { acknowledgeAlerts } from "../../../../shared/records/task/alert-acks.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { ENGINES, OPERATOR, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const keys = tenantKeys("default");
const options = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const ALERT = "default/task-1/occasion";

let bench: TestRecords;

const page = (tenant = "default", from_seq = 1) =>
  bench.repository.tenantActs.page(tenant, { from_seq, limit: 100 });
const acts = async (tenant = "default") =>
  (await page(tenant)).entries.map(({ entry }) => JSON.parse(entry) as Record<string, unknown>);
const acknowledge = (alerts: readonly string[], by: string = OPERATOR.caller, tenant = "default") =>
  bench.store.transact(options, (tx) => {
    return acknowledgeAlerts(tx, { tenant, alerts, by, note: null, nowMs: Date.now() });
  });
const write = (key: Bytes, value: Bytes | undefined) =>
  bench.store.transact(options, async (tx) => {
    if (value === undefined) tx.clear(key);
    else tx.set(key, value);
  });
const read = async (key: Bytes) => (await bench.store.read(options, (reader) => reader.get(key)))!;

describe.each(ENGINES)("the audit chain of a tenant on %s", (engine) => {
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  test("each act with an effect has one entry with its actor", async () => {
    const { repository } = bench;
    await repository.startScrub(OPERATOR);
    await repository.startScrub({ ...OPERATOR, caller: "agent-1" });
    await repository.rebuildIndex(OPERATOR);
    await repository.rebuildIndex(OPERATOR);
    await acknowledge([ALERT], "agent-7");
    await acknowledge([ALERT]);
    const human = { id: "human=olga", type: "human" };
    expect(await acts()).toMatchObject([
      { action: "scrub_start", actor: human, subject: {}, seq: 1, tenant: "default" },
      { action: "index_rebuild", actor: human, subject: {}, seq: 2 },
      { action: "alert_ack", actor: { id: "agent-7", type: "agent" }, subject: { alert_id: ALERT }, seq: 3 },
    ]);
    const { head, entries } = await page();
    const verifier = createChainVerifier();
    for (const entry of entries) verifier.add(entry);
    expect(verifier.finish(head!)).toMatchObject({ ok: true, entries: 3 });
  });

  test("another tenant has another chain", async () => {
    await acknowledge(["quokka/task-1/one"], "olga", "quokka");
    expect(await acts("quokka")).toMatchObject([{ tenant: "quokka", seq: 1 }]);
    expect(await page()).toEqual({ head: null, entries: [], more: false });
  });

  test("a page continues after the last entry of the page before", async () => {
    await acknowledge(["default/a/1", "default/a/2", "default/a/3"]);
    const first = await bench.repository.tenantActs.page("default", { from_seq: 1, limit: 2 });
    expect(first).toMatchObject({ head: { seq: 3 }, entries: [{ seq: 1 }, { seq: 2 }], more: true });
    expect(await page("default", 3)).toMatchObject({ entries: [{ seq: 3 }], more: false });
  });

  test("a reported act has one entry, however often it is reported, and each tenant has its own", async () => {
    const { tenantActs } = bench.repository;
    const drop = { action: "dead_drop", subject: { letter: 7 }, occasion: "dead_drop/7" } as const;
    const issue = { action: "credentials_issue", subject: { name: "coder" }, occasion: "issue/U1" } as const;
    expect(await tenantActs.record(OPERATOR, [drop])).toBe(1);
    expect(await tenantActs.record({ ...OPERATOR, caller: "agent-1" }, [drop, issue])).toBe(1);
    expect(await tenantActs.record({ ...OPERATOR, tenant: "quokka" }, [drop])).toBe(1);
    expect(await acts()).toMatchObject([
      { action: "dead_drop", actor: { id: "human=olga", type: "human" }, subject: { letter: 7 }, seq: 1 },
      { action: "credentials_issue", actor: { id: "agent-1" }, subject: { name: "coder" }, seq: 2 },
    ]);
    expect(await acts("quokka")).toMatchObject([{ action: "dead_drop", tenant: "quokka", seq: 1 }]);
  });

  test("a change of the policies has an entry, and a start with the same policies has none", async () => {
    const start = (policies: Policies) =>
      bench.repository.tenantActs.recordPolicies({ tenant: "default", service: "coordinator", policies });
    const other = { ...DEFAULT_POLICIES, defaults: { first_checkpoint_ms: 60_000 } };
    expect(await start(DEFAULT_POLICIES)).toBe(false);
    expect([await start(other), await start(other), await start(DEFAULT_POLICIES)]).toEqual([
      true,
      false,
      true,
    ]);
    const [first, second] = await acts();
    const hashes = [DEFAULT_POLICIES, other].map((policies) =>
      sha256Hex(canonicalText({ policies, rights: roleOperations() })),
    );
    const entry = { action: "policy_change", actor: { id: "coordinator", type: "service" } };
    expect(first).toMatchObject({ ...entry, subject: { from: hashes[0], to: hashes[1] } });
    expect(second).toMatchObject({ ...entry, subject: { from: hashes[1], to: hashes[0] } });
  });

  const MANY = Array.from({ length: 200 }, (_, i) => `default/task-1/n${i}`);
  const edited = (text: string) => text.replace("human=olga", "human=mark");

  test.each<[damage: string, details: string[], edit: () => Promise<unknown>]>([
    ["nothing", [], async () => {}],
    [
      "an edited entry",
      ["entry 101: it does not contain the hash of the entry before it"],
      async () =>
        write(keys.tenantAudit(100), encode(edited(decode<string>(await read(keys.tenantAudit(100)))))),
    ],
    [
      "a removed entry",
      [
        "entry 101: an entry before it is missing",
        "entry 101: it does not contain the hash of the entry before it",
      ],
      () => write(keys.tenantAudit(100), undefined),
    ],
    [
      "a removed newest entry",
      ["entry 200: the chain does not end in its head"],
      () => write(keys.tenantAudit(200), undefined),
    ],
    ["a lost head", ["the head is lost"], () => write(keys.tenantChain(), undefined)],
    ["a damaged head", ["the head cannot be read"], () => write(keys.tenantChain(), encode("x"))],
  ])("the scrub finds %s", async (_damage, details, edit) => {
    await bench.repository.startScrub(OPERATOR);
    await acknowledge(MANY.slice(1));
    await edit();
    const { findings } = await scrub(bench, { stepBytes: 2_000 });
    expect(findings.map((one) => one.details).sort()).toEqual(details);
    for (const { kind, task_id } of findings)
      expect({ kind, task_id }).toEqual({ kind: "tenant_audit", task_id: "unknown" });
  });

  test("an act is refused while the head is behind the entries, and then has no effect", async () => {
    await acknowledge(["default/a/1"]);
    const head = await read(keys.tenantChain());
    await acknowledge(["default/a/2"]);
    await write(keys.tenantChain(), head);
    await expect(bench.repository.startScrub(OPERATOR)).rejects.toMatchObject({ code: "CORRUPT" });
    expect((await bench.repository.scrubStatus()).requested_pass).toBe(null);
  });
});
