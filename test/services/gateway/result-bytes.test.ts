/** Results as the bytes of the service: exactly the value, or left to the decoder. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { resultReader } from "../../../services/gateway/acts/result-bytes.ts";

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value));
const records = fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue());

test("the bytes of a result, and of its only member, are their JSON", () => {
  fc.assert(
    fc.property(records, (record) => {
      const whole = resultReader()(encoded({ status: "ok", result: record }));
      expect(Buffer.from(whole!).toString()).toBe(JSON.stringify(record));
      const member = resultReader("task")(encoded({ status: "ok", result: { task: record } }));
      expect(Buffer.from(member!).toString()).toBe(JSON.stringify(record));
    }),
  );
});

test.each([
  ["an error", { status: "error", error: { code: "NOT_FOUND" } }],
  ["another member", { status: "ok", result: { handoff: {} } }],
  ["a further member behind it", { status: "ok", result: { task: {}, more: {} } }],
  ["a further member of the answer", { status: "ok", result: { task: {} }, more: {} }],
  ["no object", { status: "ok", result: { task: [{}] } }],
  ["nothing", { status: "ok", result: { task: null } }],
])("%s is left to the decoder", (_, answer) => {
  expect(resultReader("task")(encoded(answer))).toBeUndefined();
});

test("a text that was cut off anywhere is left to the decoder", () => {
  const text = encoded({ status: "ok", result: { task: { note: 'a "}}" in \\', list: [{}] } } });
  for (let length = 0; length < text.length; length += 1)
    expect(resultReader("task")(text.subarray(0, length)), String(length)).toBeUndefined();
});
