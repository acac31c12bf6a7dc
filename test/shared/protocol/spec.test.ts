// SPEC.md and FORMATS.md name existing files, and SPEC.md for every guarantee its enforcement and its tests, or that it is not enforced yet.

import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ERROR_CODES } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { COMMAND_OPS, QUERY_OPS } from "../../../shared/protocol/operations.ts";
import { TASK_STATES } from "../../../shared/protocol/task.ts";

const root = new URL("../../../", import.meta.url);
const spec = readFileSync(new URL("shared/protocol/SPEC.md", root), "utf8");
const formats = readFileSync(new URL("shared/protocol/FORMATS.md", root), "utf8");
const PATH = /\b(?:shared|services|test|deploy)\/[\w./-]*[\w/]/g;

const guarantees = spec
  .slice(spec.indexOf("\n## Guarantees"))
  .split("\n### ")
  .slice(1)
  .map((text) => ({ title: text.split("\n", 1)[0] as string, text }));

test.each([...new Set([...(spec.match(PATH) ?? []), ...(formats.match(PATH) ?? [])])])(
  "%s exists",
  (path) => {
    expect(existsSync(new URL(path, root))).toBe(true);
  },
);

test("the guarantees are numbered from 1 to 11", () => {
  expect(guarantees.map(({ title }) => Number.parseInt(title, 10))).toEqual([
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
  ]);
});

describe.each(guarantees)("guarantee $title", ({ text }) => {
  test("names its enforcement, in one paragraph", () => {
    expect(text.match(/^Enforcement: \S/gm)).toHaveLength(1);
  });

  test("names the code that enforces it and a test, or the missing part", () => {
    const enforcement = text.slice(text.indexOf("Enforcement:"));
    const tested = /^Tests: /m.test(enforcement);
    const paths: string[] = enforcement.match(PATH) ?? [];
    if (tested) {
      expect(paths.some((path) => path.startsWith("test/"))).toBe(true);
      expect(paths.some((path) => !path.startsWith("test/"))).toBe(true);
    } else {
      expect(enforcement).toMatch(/^Not yet enforced: \S/m);
    }
  });
});

test("operations and states are those of the code", () => {
  for (const name of [...COMMAND_OPS, ...QUERY_OPS, ...TASK_STATES]) expect(spec).toContain(`\`${name}\``);
});

test("every named error code exists", () => {
  const codes: readonly string[] = ERROR_CODES;
  // The tables of permissions name calls of JetStream in capitals.
  const text = spec.replace(/<!-- permissions:[\s\S]*<!-- end of permissions -->/, "");
  const named = text.match(/\b(?:INVALID|[A-Z]{4,}_?[A-Z]*)\b/g) ?? [];
  const others =
    /^(CHECKPOINT_CORRUPTED|CHECKPOINT_RESTORED|FLEET_[A-Z]+|EXPORT|FORMATS|RUNBOOK|README|UPGRADES|GLOSSARY|SIGKILL|LMDB|UTF|JSON|DSSE)$/;
  expect(named.filter((word) => !codes.includes(word) && !others.test(word))).toEqual([]);
});

describe("limits", () => {
  const api = readFileSync(new URL("shared/protocol/API.md", root), "utf8").replaceAll(/\s+/g, " ");
  const count = (value: number): string => value.toLocaleString("en-US");
  const seconds = (ms: number): string => `${ms / 1_000} s`;
  const { depth_max, id_chars_max, idempotency_ms } = LIMITS;

  test.each([
    ["canonical bytes of a checkpoint", count(LIMITS.checkpoint_bytes_max)],
    ["canonical bytes of a checkpoint", count(LIMITS.checkpoint_bytes_warn)],
    ["a message", `${count(LIMITS.payload_bytes_max)} bytes`],
    ["a page", `${count(LIMITS.reply_bytes_max)} bytes; ${count(LIMITS.history_limit_max)} of a history`],
    ["a page", `${LIMITS.search_limit_max} of a search, ${LIMITS.audit_limit_max} audit entries`],
    ["nesting", `${depth_max} levels`],
    ["items of a list, parents, labels", `${count(LIMITS.array_items_max)}, ${LIMITS.parent_count_max}`],
    ["items of a list, parents, labels", `${LIMITS.label_count_max} |`],
    ["an identifier", `${id_chars_max} characters`],
    ["a handoff's reason; its prompt", `${count(LIMITS.handoff_reason_chars_max)} characters`],
    ["a handoff's reason; its prompt", `${count(LIMITS.prompt_bytes_max)} bytes`],
    ["idempotency record", `${idempotency_ms / 3_600_000} hours`],
    ["open requests in one service", count(LIMITS.requests_in_flight_max)],
    ["the wait for earlier commands of a task", seconds(LIMITS.task_wait_ms_max)],
    ["the wait of the oldest request", seconds(LIMITS.request_wait_ms_max)],
  ])("%s: %s", (what, limit) => {
    const line = spec.split("\n").find((one) => one.startsWith(`| ${what} `));
    expect(line?.replaceAll(/ +/g, " ")).toContain(limit);
  });

  test.each([
    [`At most ${count(LIMITS.payload_bytes_max)} bytes`],
    [`more than ${depth_max} levels of nesting`],
    [`sent any number of times within ${idempotency_ms / 3_600_000} hours`],
    [`At most ${count(LIMITS.checkpoint_bytes_max)} canonical bytes`],
    [`The prompt has at most ${count(LIMITS.prompt_bytes_max)} bytes`],
    [`\`limit\` is 1 to ${LIMITS.handoffs_limit_max}, by default ${LIMITS.handoffs_limit_default}`],
    [`the query waits up to ${seconds(LIMITS.search_wait_ms_max)}`],
    [`No answer** in ${seconds(LIMITS.request_attempt_ms_default)}`],
    [`when ${count(LIMITS.requests_in_flight_max)} requests are open`],
    [`has waited for over ${seconds(LIMITS.request_wait_ms_max)}`],
    [`has waited for over ${seconds(LIMITS.task_wait_ms_max)} for earlier ones`],
  ])("API.md has the same limit: %s", (words) => expect(api).toContain(words));
});
