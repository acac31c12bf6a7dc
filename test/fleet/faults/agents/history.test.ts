/** The history survives its process: lines are on disk when append resolves, and an incomplete last line is ignored. */
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type CallLine, HistoryWriter, instant, pairedHistory, readHistory } from "./history.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-history-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const call = (name: string): CallLine => ({
  line: "call",
  call: name,
  at: instant(),
  op: "create",
  agent: "a",
  task: "t",
  command_id: name,
});

test("each line is in the file when its append resolves, in append order", async () => {
  const file = join(folder, "a-0.jsonl");
  const history = new HistoryWriter(file);
  const appended: string[] = [];
  await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      await history.append(call(`c${i}`));
      expect(readFileSync(file, "utf8")).toContain(`"call":"c${i}"`);
      appended.push(`c${i}`);
    }),
  );
  const calls = readHistory(folder).map((line) => (line as CallLine).call);
  expect(calls).toEqual(Array.from({ length: 200 }, (_, i) => `c${i}`));
  await history.close();
});

test("a second writer cannot open the file", () => {
  const file = join(folder, "a-0.jsonl");
  new HistoryWriter(file);
  expect(() => new HistoryWriter(file)).toThrow("EEXIST");
});

test("a call without an end is open, and half a line is ignored", async () => {
  const file = join(folder, "a-0.jsonl");
  const history = new HistoryWriter(file);
  await history.append(call("answered"));
  await history.append({ line: "sent", command_id: "answered", subject: "s", body: "{}" });
  await history.append({
    line: "done",
    call: "answered",
    at: instant(),
    outcome: "refused",
    code: "CONFLICT",
  });
  await history.append(call("open"));
  await history.append({ line: "sent", command_id: "open", subject: "s", body: "{}" });
  await history.append(call("unsent"));
  await history.append(call("given up"));
  await history.append({
    line: "done",
    call: "given up",
    at: instant(),
    outcome: "unknown",
    code: "AbortError",
  });
  await history.close();
  appendFileSync(file, '{"line":"done","call":"open","at":1,"outc');
  const { attempts, sent } = pairedHistory(readHistory(folder));
  expect(attempts.map(({ call: name, outcome, end }) => [name, outcome, Number.isFinite(end)])).toEqual([
    ["answered", "refused", true],
    ["open", "unknown", false],
    ["unsent", "refused", true],
    ["given up", "refused", true],
  ]);
  expect([...sent.keys()]).toEqual(["answered", "open"]);
});
