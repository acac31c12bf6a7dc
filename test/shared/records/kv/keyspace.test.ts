import fc from "fast-check";
import tuple from "fdb-tuple";
import { expect, test } from "vitest";
import { parseFinding } from "../../../../shared/records/kv/due-index.ts";
import { element, formatUuid, parseLink, uuidBytes } from "../../../../shared/records/kv/key-elements.ts";
import {
  endingId,
  parseAgentLease,
  parseSeq,
  parseTask,
  stampOf,
  systemKeys,
  tenantKeys,
} from "../../../../shared/records/kv/keyspace.ts";

const id = fc.uuid({ version: 7 });
const uuid = (value: string) => ({
  type: "uuid" as const,
  value: Buffer.from(value.replaceAll("-", ""), "hex"),
});

test("keys are the documented tuples, byte for byte as the library packs them", () => {
  fc.assert(
    fc.property(id, id, fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/), fc.nat(), (cp, other, task, seq) => {
      const keys = tenantKeys("default");
      const packed = (...elements: unknown[]) => tuple.pack(["coditect", ...(elements as string[])]);
      expect(keys.checkpoint(task, cp)).toEqual(packed("checkpoints", task, uuid(cp)));
      expect(keys.chunk(task, cp, 3, seq)).toEqual(packed("chunks", task, uuid(cp), 3, seq));
      expect(keys.order(task, seq)).toEqual(packed("order", task, seq));
      expect(tenantKeys("clinic").task(task)).toEqual(packed("t", "clinic", "tasks", task));
      expect(systemKeys.lease(task)).toEqual(packed("s", "lease", task));
      expect(parseSeq(keys.audit(task, seq))).toBe(seq);
      expect(parseTask(keys.audit(task, seq))).toBe(task);
      expect(parseTask(tenantKeys("t").task(task))).toBe(task);
      expect(parseLink(keys.child(task, cp, other))).toEqual({ parent: cp, child: other });
      expect(parseFinding(systemKeys.finding("clinic", task, "f"))).toEqual({ tenant: "clinic", id: "f" });
      const lease = { tenant: task, task: "clinic", fence: seq };
      const leaseKey = systemKeys.agentLease(task, "clinic", seq);
      expect(leaseKey).toEqual(packed("s", "agent_lease", task, "clinic", seq));
      expect(parseAgentLease(leaseKey)).toEqual(lease);
      // A key that a store returns may lie in the middle of a block.
      expect(parseAgentLease(Buffer.concat([Buffer.from("block"), leaseKey]).subarray(5))).toEqual(lease);
      expect(formatUuid(uuidBytes(cp))).toBe(cp);
    }),
  );
});

test("any text is packed as the library packs it", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: fc.constantFrom("\0", "a", "é") }),
  );
  fc.assert(
    fc.property(text, (value) => {
      expect(systemKeys.count(value)).toEqual(tuple.pack(["coditect", "s", "count", value]));
    }),
  );
});

test("any number is packed as the library packs it, and read from the end of any key as the library reads it", () => {
  const number = fc.oneof(
    fc.maxSafeInteger(),
    fc.nat(70_000),
    fc.constantFrom(0, 255, 256, Number.MAX_SAFE_INTEGER),
  );
  const other = fc.oneof(
    fc.string({ unit: fc.constantFrom("\0", "a", "é", "\u0002") }),
    number,
    id.map(uuid),
  );
  fc.assert(
    fc.property(fc.array(other, { maxLength: 4 }), number, (before, value) => {
      expect(element(value)).toEqual(tuple.pack([value]));
      expect(parseSeq(tuple.pack([...(before as string[]), value]) as Buffer)).toBe(value);
    }),
  );
});

test("byte order is the order of sequences and of times", () => {
  fc.assert(
    fc.property(fc.nat(), fc.nat(), id, id, (a, b, one, two) => {
      const keys = tenantKeys("default");
      expect(Math.sign(Buffer.compare(keys.order("t", a), keys.order("t", b)))).toBe(Math.sign(a - b));
      const inTime = Math.sign(
        Buffer.compare(keys.index("time", "", a, one), keys.index("time", "", b, two)),
      );
      expect(inTime).toBe(a === b ? (one < two ? -1 : one > two ? 1 : 0) : Math.sign(a - b));
      expect(endingId(keys.index("time", "", a, one))).toBe(one);
    }),
  );
});

test("an incomplete UUID, an unsafe number and malformed text are refused", () => {
  const keys = tenantKeys("default");
  expect(() => keys.id("01a2002b")).toThrow(RangeError);
  expect(() => keys.id("zza2002b-2fb5-7767-a969-ef82b9eae008")).toThrow(RangeError);
  expect(() => keys.order("t", 1.5)).toThrow(RangeError);
  expect(() => keys.task("\ud800")).toThrow(RangeError);
});

test("the stamp of a feed key follows its prefix", () => {
  const stamp = Buffer.from("0102030405060708090a0000", "hex");
  expect(Buffer.from(stampOf(Buffer.concat([systemKeys.feedPrefix(1), stamp])))).toEqual(stamp);
});
