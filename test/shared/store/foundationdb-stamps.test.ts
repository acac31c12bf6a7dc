import fc from "fast-check";
import { expect, test } from "vitest";
import { stampedKeyOperand, stampedValueOperand } from "../../../shared/store/foundationdb/stamps.ts";

const hex = (operand: Buffer) => operand.toString("hex");
const STAMP = Buffer.from("00112233445566778899", "hex");

/**
 * The engine's treatment of an operand, from its documentation of SET_VERSIONSTAMPED_KEY and _VALUE since API
 * 520.
 */
function stamped(operand: Buffer): Buffer {
  const result = Buffer.from(operand.subarray(0, -4));
  STAMP.copy(result, operand.readUInt32LE(operand.length - 4));
  return result;
}

test("a stamped key is prefix, stamp, order, suffix, and a little-endian offset of the stamp", () => {
  const operand = stampedKeyOperand(Buffer.from("p1"), 0x0102, Buffer.from("s"));
  expect(hex(operand)).toBe(`7031${"00".repeat(10)}0102${"73"}02000000`);
});

test("a stamped value is prefix, stamp, suffix, and the offset", () => {
  const operand = stampedValueOperand(Buffer.from("abc"), Buffer.from("z"));
  expect(hex(operand)).toBe(`616263${"00".repeat(10)}7a03000000`);
});

test("the order is unsigned: the 32,768th stamped key and the last one sort after the first", () => {
  const orders = [0, 0x7fff, 0x8000, 0xffff].map((order) =>
    stamped(stampedKeyOperand(Buffer.of(1), order, Buffer.of())),
  );
  expect([...orders].sort(Buffer.compare)).toEqual(orders);
});

test("the engine's replacement results in the layout of the interface, and nothing more", () => {
  const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array));
  fc.assert(
    fc.property(bytes(700), fc.integer({ min: 0, max: 0xffff }), bytes(300), (prefix, order, suffix) => {
      const counter = Buffer.of(order >> 8, order & 0xff);
      expect(hex(stamped(stampedKeyOperand(prefix, order, suffix)))).toBe(
        hex(Buffer.concat([prefix, STAMP, counter, suffix])),
      );
      expect(hex(stamped(stampedValueOperand(prefix, suffix)))).toBe(
        hex(Buffer.concat([prefix, STAMP, suffix])),
      );
    }),
  );
});
