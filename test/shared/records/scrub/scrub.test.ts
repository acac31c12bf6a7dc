/**
 * The scrub over real stores. It finds every kind of damage, which the tests write directly to the store. It finds nothing in sound
 * data during concurrent writes and with steps of any size.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import type { CommittedAnswer } from "../../../../shared/protocol/answers.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, type TenantKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { keepFindings } from "../../../../shared/records/scrub/findings.ts";
import { alertFindings, stepScrub } from "../../../../shared/records/scrub/scrub.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { initiate } from "../../../harness/records/handoffs.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  OPERATOR,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { findingsOf, NO_EVENTS, scrub } from "../../../harness/records/scrub.ts";

const TASK = "task-1";
const keys: TenantKeys = tenantKeys("default");
const options = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const noise = (chars: number) =>
  Array.from({ length: chars }, () => String.fromCharCode(33 + Math.random() * 90)).join("");

let bench: TestRecords;

const read = async (key: Bytes): Promise<Bytes> => {
  const value = await bench.store.read(options, (reader) => reader.get(key));
  if (value === undefined) throw new Error("there is no such row");
  return value;
};
const write = (key: Bytes, value: Bytes | undefined) =>
  bench.store.transact(options, async (tx) => {
    if (value === undefined) tx.clear(key);
    else tx.set(key, value);
  });
const remove = async (key: Bytes) => {
  await read(key);
  await write(key, undefined);
};
const flip = async (key: Bytes) => {
  const value = Uint8Array.from(await read(key));
  value[value.length >> 1]! ^= 1;
  await write(key, value);
};
const truncate = async (key: Bytes) => write(key, (await read(key)).subarray(0, 10));
const rewrite = async (key: Bytes, change: (text: string) => string) => {
  const text = decode<string>(await read(key));
  expect(change(text)).not.toBe(text);
  await write(key, encode(change(text)));
};
const update = (id: string, task = TASK) =>
  send(bench.repository, "update", { checkpoint_id: id, patch: { a: 1 } }, { task });
const found = async () => {
  const { findings } = await scrub(bench);
  const lines = findings.map(({ kind, details, version }) => [kind, details, version] as const);
  return lines.sort((a, b) => (a.join() < b.join() ? -1 : 1));
};

describe.each(ENGINES)("the scrub on %s", (engine) => {
  let made: CommittedAnswer[];

  beforeEach(async () => {
    bench = await openTestRecords(engine);
    made = [];
    for (let i = 0; i < 4; i += 1) made.push(await create(bench.repository));
    await update(made[1]!.checkpoint_id);
    await update(made[1]!.checkpoint_id);
  });
  afterEach(() => bench.close());

  const id = (n: number) => made[n]!.checkpoint_id;

  test("a damaged head reported by a reader is the same finding as in a pass, with one alert", async () => {
    await flip(keys.task(TASK));
    const [reported, ...others] = await bench.repository.keepReportedDamage("default", TASK);
    expect(others).toEqual([]);
    expect(reported).toMatchObject({ task: TASK, kind: "head" });
    expect(await bench.repository.keepReportedDamage("default", TASK)).toEqual([]);
    const listed = await findingsOf(bench.repository);
    expect(listed).toHaveLength(1);
    const alerted: string[] = [];
    const alert = () =>
      alertFindings({ store: bench.store, guard: async () => {} }, async (one) => void alerted.push(one.id));
    await alert();
    const { findings } = await scrub(bench);
    await alert();
    expect(alerted).toHaveLength(1);
    expect(findings.filter(({ kind }) => kind === "head")).toEqual([{ ...listed[0], pass: 1 }]);
  });

  test("a damaged open handoff reported by a reader is the same finding as in a pass", async () => {
    const { handoff_id: open } = await initiate(bench.repository, { task: TASK });
    await flip(keys.handoff(open));
    expect(await bench.repository.keepReportedDamage("default", TASK)).toMatchObject([
      { task: TASK, kind: "handoff" },
    ]);
    const [listed] = await findingsOf(bench.repository);
    const { findings } = await scrub(bench);
    expect(findings).toEqual([{ ...listed, pass: 1 }]);
  });

  test("a reported head that is sound is not a finding", async () => {
    expect(await bench.repository.keepReportedDamage("default", TASK)).toEqual([]);
    expect(await findingsOf(bench.repository)).toEqual([]);
  });

  test("a report during a pass loses no step and no finding", async () => {
    await send(bench.repository, "take", {}, { task: "other" });
    await flip(keys.task("other"));
    let reported = 0;
    const { findings } = await scrub(bench, {
      stepBytes: 1_000,
      between: async () => {
        reported += (await bench.repository.keepReportedDamage("default", "other")).length;
      },
    });
    expect(reported).toBe(1);
    expect(findings).toMatchObject([{ task_id: "other", kind: "head", pass: 1 }]);
  });

  test("finds nothing in sound data of several tenants, and counts the verified records", async () => {
    await create(bench.repository, { tenant: "clinic", checkpoint: input({ goal: noise(150_000) }) });
    await create(bench.repository, {
      tenant: "zoo",
      task: "handed",
      checkpoint: input({ phase: "handoff" }),
    });
    await finalize(bench.repository, id(3));
    await send(bench.repository, "link", { parent_id: id(0), child_id: id(2) });
    await send(bench.repository, "take", {}, { task: "taken-only" });
    const { pass, findings } = await scrub(bench);
    expect(findings).toEqual([]);
    expect(pass).toMatchObject({
      pass: 1,
      tasks: 4,
      checkpoints: 6,
      versions: 4,
      findings: 0,
      quarantined: 0,
    });
    expect(pass.audit_entries).toBeGreaterThanOrEqual(12);
    expect(pass.bytes).toBeGreaterThan(100_000);
  });

  test.each<[what: string, damage: () => Promise<unknown>, kind: string, details: string | RegExp]>([
    ["a damaged head", () => flip(keys.task(TASK)), "head", "the head cannot be read"],
    ["a lost head", () => remove(keys.task(TASK)), "head", "the head is lost"],
    ["a damaged order entry", () => flip(keys.order(TASK, 2)), "order", /position 2/],
    ["a lost order entry", () => remove(keys.order(TASK, 2)), "order", /position 2/],
    ["a lost end of the order", () => remove(keys.order(TASK, 4)), "order", /positions 4 to 4/],
    ["a damaged location", () => flip(keys.id(id(1))), "place", /where the checkpoint stands/],
    ["a lost location", () => remove(keys.id(id(3))), "place", /where the checkpoint stands/],
    ["a damaged checkpoint", () => flip(keys.checkpoint(TASK, id(1))), "checkpoint", "hash mismatch"],
    ["a lost checkpoint", () => remove(keys.checkpoint(TASK, id(1))), "checkpoint", "the row is missing"],
    ["a damaged version", () => flip(keys.version(TASK, id(1), 1)), "version", "hash mismatch"],
    ["a lost version", () => remove(keys.version(TASK, id(1), 2)), "version", "the row is missing"],
    ["a lost link", () => remove(keys.child(TASK, id(0), id(1))), "link", /from its parent/],
    [
      "a link to a missing checkpoint",
      () => write(keys.child(TASK, id(0), MISSING_ID), new Uint8Array(0)),
      "link",
      /one of them/,
    ],
    [
      "a damaged audit entry",
      () => truncate(keys.audit(TASK, 3)),
      "audit",
      /^entry 3: its bytes are damaged/,
    ],
    [
      "an audit entry with another fact",
      () => rewrite(keys.audit(TASK, 3), (text) => text.replace('"fence":0', '"fence":1')),
      "audit",
      /^entry 4: it does not name the hash/,
    ],
    [
      "an audit entry with another hash",
      () => rewrite(keys.audit(TASK, 3), (text) => text.replace(/(?<="new_hash":")./, "g")),
      "audit",
      /^entry 3 made version 1 with another hash/,
    ],
    ["a lost audit entry", () => remove(keys.audit(TASK, 3)), "audit", /^entry 4: an entry is missing/],
    [
      "a lost end of the trail",
      () => remove(keys.audit(TASK, 6)),
      "audit",
      /^entry 6, which it names, is not in the trail/,
    ],
  ])("finds %s", async (_what, damage, kind, details) => {
    await damage();
    const lines = await found();
    expect(lines[0]).toEqual([
      kind,
      details instanceof RegExp ? expect.stringMatching(details) : details,
      lines[0]![2],
    ]);
    // The command and the event of a lost entry are evidence of their own.
    const others = kind === "audit" ? ["command", "event"] : [];
    const kinds = lines.map(([one]) => one).filter((one) => !others.includes(one));
    expect(new Set(kinds)).toEqual(new Set([kind]));
    // The next pass finds the same damage as the same finding.
    const again = await scrub(bench);
    if (kind === "checkpoint") expect(again.pass).toMatchObject({ findings: 0, quarantined: 1 });
    else expect(again.findings).toMatchObject(lines.map(() => ({ pass: 2 })));
  });

  test("finds a head whose trail ends before it", async () => {
    await send(bench.repository, "take", {}, { task: TASK });
    await remove(keys.audit(TASK, 7));
    expect(await found()).toContainEqual(["audit", "the trail does not end where the head says", null]);
  });

  test("finds a head that was rolled back, and adds nothing to its trail", async () => {
    const before = await read(keys.task(TASK));
    await create(bench.repository);
    const trail = await read(keys.audit(TASK, 7));
    await write(keys.task(TASK), before);
    await flip(keys.checkpoint(TASK, id(1)));
    expect(await found()).toEqual([
      ["checkpoint", "hash mismatch", 3],
      ["head", "the head is older than the task's records", null],
    ]);
    await bench.repository.get("default", id(1)).catch(() => {});
    expect(await read(keys.audit(TASK, 7))).toEqual(trail);
  });

  test("finds a checkpoint and its order entry that were rolled back together, by the trail", async () => {
    const rows = [keys.order(TASK, 1), keys.checkpoint(TASK, id(0))];
    const before = await Promise.all(rows.map(read));
    await update(id(0));
    for (const [i, key] of rows.entries()) await write(key, before[i]!);
    expect(await found()).toEqual([
      ["audit", expect.stringMatching(/made version 2, and the order goes to 1/), 2],
    ]);
  });

  test("finds the sound bytes of another row", async () => {
    await write(keys.version(TASK, id(1), 2), await read(keys.version(TASK, id(1), 1)));
    expect(await found()).toEqual([["version", "the row holds another version", 2]]);
  });

  test("finds an audit entry that was replaced by a well-formed one", async () => {
    const key = keys.audit(TASK, 2);
    const entry = JSON.parse(decode<string>(await read(key)));
    await write(key, encode(canonicalText({ ...entry, new_hash: "0".repeat(64) })));
    const lines = await found();
    expect(new Set(lines.map(([kind]) => kind))).toEqual(new Set(["audit", "event", "command"]));
    expect(lines).toContainEqual([
      "audit",
      expect.stringMatching(/^entry 3: it does not name the hash/),
      null,
    ]);
    expect(lines).toContainEqual(["audit", expect.stringMatching(/entry 2, which it names/), 1]);
  });

  test("finds damage to handoffs", async () => {
    const { handoff_id: handoff } = await initiate(bench.repository, {});
    const due = Date.parse((await bench.repository.handoff("default", { handoff_id: handoff })).due_at!);
    await scrub(bench).then(({ findings }) => expect(findings).toEqual([]));
    await remove(systemKeys.handoffDue(due, "default", handoff));
    expect(await found()).toEqual([["handoff", expect.stringMatching(/not among those that are due/), null]]);
    await flip(keys.handoff(handoff));
    expect(await found()).toContainEqual(["handoff", expect.stringMatching(/cannot be read/), null]);
    await remove(keys.taskHandoff(TASK, handoff));
    expect(await found()).toContainEqual(["handoff", expect.stringMatching(/not among the task's/), null]);
  });

  test("quarantines a version that could be served, once, with event and audit entry", async () => {
    await flip(keys.checkpoint(TASK, id(1)));
    const first = await scrub(bench);
    expect(first.findings).toMatchObject([
      { kind: "checkpoint", checkpoint_id: id(1), version: 3, quarantined: true },
    ]);
    expect(bench.corrupt).toHaveLength(1);
    await expect(read(keys.quarantine(TASK, id(1), 3))).resolves.toBeDefined();
    const second = await scrub(bench);
    expect(second.pass).toMatchObject({ findings: 0, quarantined: 1 });
    expect(second.findings).toEqual([]);
    expect(bench.corrupt).toHaveLength(1);
  });

  test("drops the finding of a repaired row and keeps the others", async () => {
    const rows = [keys.version(TASK, id(1), 1), keys.version(TASK, id(1), 2)] as const;
    const sound = await read(rows[0]);
    for (const row of rows) await flip(row);
    const first = (await scrub(bench)).findings;
    expect(first.map(({ version }) => version).sort()).toEqual([1, 2]);
    await write(rows[0], sound);
    const second = (await scrub(bench)).findings;
    const left = first.find(({ version }) => version === 2)!;
    expect(second).toEqual([{ ...left, pass: 2 }]);
  });

  test("lists a limited number of findings in one task, and continues with the next task", async () => {
    for (let seq = 5; seq <= 40; seq += 1) await create(bench.repository);
    for (let seq = 1; seq <= 39; seq += 1) await remove(keys.order(TASK, seq));
    const other = await create(bench.repository, { task: "task-2" });
    await remove(keys.id(other.checkpoint_id));
    const { findings } = await scrub(bench, { stepBytes: 2_500 });
    const [mine, others] = [
      findings.filter(({ task_id }) => task_id === TASK),
      findings.filter(({ task_id }) => task_id === "task-2"),
    ];
    expect(mine).toHaveLength(20);
    expect(mine).toContainEqual(
      expect.objectContaining({ kind: "record", details: expect.stringMatching(/more/) }),
    );
    expect(others).toMatchObject([{ kind: "place" }]);
  });

  test("a repeated or concurrent step counts once", async () => {
    await flip(keys.version(TASK, id(1), 1));
    await bench.repository.startScrub(OPERATOR);
    const scrubbing = {
      store: bench.store,
      events: NO_EVENTS,
      settings: { rateBytes: 12_000, everyMs: null },
      now: Date.now,
      guard: async () => {},
      quarantine: async () => {},
    };
    let ended = 0;
    for (let rounds = 0; ended === 0 && rounds < 100; rounds += 1) {
      const both = await Promise.all([stepScrub(scrubbing), stepScrub(scrubbing)]);
      expect(both.filter((done) => done !== null && done.kind !== "overtaken").length).toBeLessThanOrEqual(2);
      ended += both.filter((done) => done?.kind === "ended").length;
    }
    expect(ended).toBe(1);
    const { last } = await bench.repository.scrubStatus();
    expect(last).toMatchObject({ tasks: 1, checkpoints: 4, versions: 1, findings: 1, audit_entries: 6 });
  });

  test("a request during a pass starts another pass after it", async () => {
    let asked = false;
    const first = await scrub(bench, {
      stepBytes: 2_500,
      between: async () => {
        if (asked) return;
        asked = true;
        expect((await bench.repository.startScrub(OPERATOR)).requested_pass).toBe(2);
        expect((await bench.repository.startScrub(OPERATOR)).requested_pass).toBe(2);
      },
    });
    expect(first.pass.pass).toBe(1);
    expect(await bench.repository.scrubStatus()).toMatchObject({ current: null, requested_pass: 2 });
    expect((await scrub(bench)).pass.pass).toBe(2);
    expect(await bench.repository.scrubStatus()).toMatchObject({ requested_pass: null, last: { pass: 2 } });
  });

  test("lists only the findings of the tenant, in pages", async () => {
    const damage = { kind: "link", checkpoint_id: null, version: null, quarantined: false } as const;
    const of = (tenant: string, n: number) => ({ ...damage, tenant, task: `t-${n}`, details: `${n}` });
    const all = [...Array.from({ length: 7 }, (_, n) => of("default", n)), of("clinic", 1)];
    await bench.store.transact(options, (tx) => keepFindings(tx, all, { pass: 1, nowMs: 0 }));
    const first = await bench.repository.scrubFindings("default", { limit: 5 });
    const rest = await bench.repository.scrubFindings("default", { limit: 5, cursor: first.cursor });
    expect([...first.findings, ...rest.findings].map(({ task_id }) => task_id)).toEqual(
      [0, 1, 2, 3, 4, 5, 6].map((n) => `t-${n}`),
    );
    expect(rest.cursor).toBeUndefined();
    const stolen = bench.repository.scrubFindings("clinic", { limit: 5, cursor: first.cursor });
    await expect(stolen).rejects.toMatchObject({ code: "INVALID" });
    expect(await findingsOf(bench.repository)).toHaveLength(7);
  });
});

/** The id of a checkpoint that does not exist. */
const MISSING_ID = "01a2002b-2fb5-7767-a969-ef82b9eae008";
