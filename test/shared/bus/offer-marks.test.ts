/** The marks in the subjects of offers. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { messageIds } from "../../../shared/bus/publish/message-ids.ts";
import { offerMarks } from "../../../shared/bus/publish/offer-marks.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";

const KEY = randomBytes(32).toString("hex");

test("the mark of offers is another one for each key, tenant and task, and the same for all offers of a task", () => {
  const markOf = offerMarks(KEY);
  const marks = [
    markOf("default", "one"),
    markOf("default", "two"),
    markOf("other", "one"),
    offerMarks(randomBytes(32).toString("hex"))("default", "one"),
    messageIds(KEY).of("default/one"),
  ];
  expect(new Set(marks).size).toBe(marks.length);
  expect(offerMarks(KEY)("default", "one")).toBe(marks[0]);
  expect(marks[0]).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(SUBJECTS.offer("default", "qa", "one", marks[0])).toBe(`fleet.offer.default.qa.one=${marks[0]}`);
  expect(() => SUBJECTS.offer("default", "qa", "one=two", marks[0])).toThrow();
  expect(() => SUBJECTS.offer("default", "qa", "one", "two=three")).toThrow();
});
