import { expect, test } from "vitest";
import type { TaskRecord } from "../../../../shared/lifecycle/task.ts";
import { ENCRYPTED, fleetLayout } from "../../../../shared/records/encryption/layout.ts";
import { TASK_KEY_SPACES } from "../../../../shared/records/encryption/renew-keys.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { clearContent } from "../../../../shared/records/retention/shred/content.ts";
import { openStore } from "../../../../shared/store/open.ts";

const ID = "01890000-0000-7000-8000-000000000001";
const keys = tenantKeys("default");
const clinic = tenantKeys("clinic");
const keyPlaceOf = (key: Uint8Array) => fleetLayout(key)?.place.id ?? null;

test("content is encrypted with the key of its task, what stays after shredding with the key of its tenant", () => {
  const ofTask = [
    keys.checkpoint("t1", ID),
    keys.version("t1", ID, 1),
    keys.chunk("t1", ID, 1, 0),
    keys.order("t1", 1),
    keys.task("t1"),
    keys.mission("t1"),
    keys.sortie("t1", "s"),
    keys.missionLocks("t1"),
    keys.messageBody("t1", 1),
  ];
  for (const key of ofTask) expect(keyPlaceOf(key)).toBe("t/default/t1");
  const ofTenant = [
    keys.audit("t1", 1),
    keys.handoff(ID),
    keys.tombstone("t1", 1),
    keys.command(ID),
    keys.alertAck("a"),
    keys.tenantAudit(1),
  ];
  for (const key of ofTenant) expect(keyPlaceOf(key)).toBe("t/default");
  expect(keyPlaceOf(clinic.chunk("t1", ID, 1, 0))).toBe("t/clinic/t1");
  expect(keyPlaceOf(clinic.audit("t1", 1))).toBe("t/clinic");
  expect(keyPlaceOf(systemKeys.finding("clinic", "t1", "f"))).toBe("s");
});

test("rows without content stay clear, and so do wrapped keys", () => {
  const clear = [
    keys.id(ID),
    keys.word("word", 1),
    keys.index("agent", "a", 1, ID),
    keys.dataKeys("t1"),
    clinic.tenantDataKeys(),
    systemKeys.bucketKey(null, 1),
    systemKeys.systemDataKeys(),
    systemKeys.meta("format"),
    systemKeys.wakeUp(1),
    systemKeys.count("tasks"),
    systemKeys.lease("scrub"),
  ];
  for (const key of clear) expect(keyPlaceOf(key)).toBeNull();
  // Keys of the engine's tests, and of a newer version.
  for (const text of ["x", "contract/abc", "\u0002coditect", "\u0002other\0\u0002checkpoints\0"])
    expect(keyPlaceOf(Buffer.from(text))).toBeNull();
});

test("the address of a row is its key, without the stamp that its writer does not know", () => {
  const key = keys.checkpoint("t1", ID);
  expect(fleetLayout(key)?.address).toEqual(key);
  const prefix = systemKeys.outboxPrefix(3, 1);
  const stamped = (byte: number) => Buffer.concat([prefix, Buffer.alloc(12, byte)]);
  expect(fleetLayout(stamped(1))?.address).toEqual(prefix);
  expect(fleetLayout(stamped(1))?.address).toEqual(fleetLayout(stamped(2))?.address);
});

const OF_TASKS = Object.entries(ENCRYPTED).flatMap(([space, cover]) => (cover === "task" ? [space] : []));

test("what is under the key of a task is written again with a new one", () => {
  expect(TASK_KEY_SPACES.toSorted()).toEqual(OF_TASKS.toSorted());
});

test("what is under the key of a task is removed by shredding, but for the record of the task", async () => {
  const store = await openStore("memory:");
  const write = { label: "test", deadlineMs: 20_000, onUnknown: "safe" } as const;
  // The ranges end at the task: the row of the task itself is before them.
  const keysOf = (space: (typeof TASK_KEY_SPACES)[number]) => {
    const { begin } = keys.ofTask(space, "t1");
    const own = begin.subarray(0, -1);
    return ["tasks", "missions", "mission_locks"].includes(space)
      ? own
      : Buffer.concat([own, Buffer.from("\u0002x\0")]);
  };
  await store.transact(write, async (tx) => {
    for (const space of TASK_KEY_SPACES) tx.set(keysOf(space), Buffer.from("row"));
  });
  const head = { tenant: "default", task_id: "t1" } as TaskRecord;
  await store.transact(write, async (tx) => expect(await clearContent(tx, head)).not.toBeNull());
  const left = await store.read(write, (reader) => reader.getMany(TASK_KEY_SPACES.map(keysOf)));
  expect(TASK_KEY_SPACES.filter((_, i) => left[i] !== undefined)).toEqual(["tasks"]);
  await store.close({ drainMs: 1_000 });
});
