import { expect, test } from "vitest";
import { fleetLayout } from "../../../../shared/records/encryption/layout.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";

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
