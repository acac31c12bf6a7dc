// The record of the tables of rights: one line for each table that came into force.
import { createHash } from "node:crypto";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { appendLine, linesText } from "../../../../shared/bus/access/register/appended-lines.ts";
import { noteRights, rightsAt } from "../../../../shared/bus/access/register/rights-history.ts";
import { RIGHTS, roleOperations } from "../../../../shared/protocol/operation-rights.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-rights-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const file = () => join(folder, "rights.jsonl");
const lines = () => readFileSync(file(), "utf8").split("\n").length - 1;
const at = (day: number) => new Date(Date.UTC(2026, 0, day)).toISOString();

/** The table of an earlier version, in which agents could do nothing. */
function earlierLine(day: number): string {
  const operations = { ...roleOperations(), agent: [] };
  const version = createHash("sha256").update(JSON.stringify(operations)).digest("hex");
  return `${JSON.stringify({ at: at(day), version, operations })}\n`;
}

test("the table in force at a time is the one of the version that ran then", () => {
  writeFileSync(file(), earlierLine(1));
  noteRights(folder, new Date(at(5)));
  noteRights(folder, new Date(at(6)));
  expect(lines()).toBe(2);
  expect(rightsAt(folder, at(1))?.operations.agent).toEqual([]);
  expect(rightsAt(folder, at(4))?.operations.agent).toEqual([]);
  expect(rightsAt(folder, at(5))?.operations.agent).toContain(RIGHTS.finalize);
  expect(rightsAt(folder, new Date(Date.UTC(2025, 11, 31)).toISOString())).toBeNull();
  // An older version runs again, and then this one.
  appendFileSync(file(), earlierLine(7));
  noteRights(folder, new Date(at(8)));
  expect([rightsAt(folder, at(7))?.operations.agent, lines()]).toEqual([[], 4]);
});

test("a line with letters of two bytes stays whole when the next one is appended", () => {
  for (const name of ["Zoë", "Ærø", "b"]) appendLine(folder, "names.jsonl", { name });
  expect(linesText(join(folder, "names.jsonl"))).toBe('{"name":"Zoë"}\n{"name":"Ærø"}\n{"name":"b"}\n');
});

test("half a line of a killed process is replaced, and an edited line is refused", () => {
  writeFileSync(file(), '{"at":"2026-');
  noteRights(folder, new Date(at(2)));
  expect([lines(), rightsAt(folder, at(3))?.at]).toEqual([1, at(2)]);
  writeFileSync(file(), earlierLine(1).replace('"agent":[]', '"agent":["cmd.remove"]'));
  expect(() => rightsAt(folder, at(3))).toThrow("the history of the rights is damaged");
});

test("each right of the matrix is an operation of some role, and not of all", () => {
  const tables = Object.values(roleOperations());
  for (const [name, operation] of Object.entries(RIGHTS)) {
    const having = tables.filter((operations) => operations.includes(operation));
    expect(having.length, name).toBeGreaterThan(0);
    expect(having.length < tables.length || name === "read", name).toBe(true);
  }
});
