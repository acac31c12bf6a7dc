/** The parts of the round `upgrade` find what they are for. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../../harness/project-root.ts";
import type { CallAttempt } from "../agents/history.ts";
import { openPreviousTree } from "./previous-tree.ts";
import { checkVisibleErrors } from "./visible-errors.ts";

const attempt = (changes: Partial<CallAttempt>): CallAttempt => ({
  ...{ call: "c", op: "create", agent: "agents-1-0", task: "t", begin: 0, end: 1_000, outcome: "committed" },
  ...changes,
});

test("an error of the fleet that an agent saw is a violation, and a refusal by the state of a task is none", () => {
  const fine = [
    attempt({}),
    attempt({ outcome: "refused", code: "FENCED" }),
    attempt({ outcome: "queued" }),
    attempt({ outcome: "unknown", code: "TIMEOUT", copy: "late" }),
    attempt({ outcome: "unknown", agent: "takers-1-0" }),
  ];
  expect(checkVisibleErrors(fine)).toEqual([]);
  const visible = [
    attempt({ outcome: "unknown", code: "TIMEOUT" }),
    attempt({ outcome: "refused", code: "UNAVAILABLE" }),
    attempt({ outcome: "refused", code: "INTERNAL" }),
    attempt({ outcome: "refused", code: "UNSUPPORTED_VERSION", agent: "agents-2-3", op: "latest" }),
    attempt({ outcome: "unknown", code: "HTTP 500", agent: "http-caller" }),
  ];
  expect(checkVisibleErrors([...fine, ...visible]).map(({ details }) => details.code)).toEqual(
    visible.map(({ code }) => code),
  );
});

test("a copy of the repository without the previous release says that, and takes this tree in its place", () => {
  const previous = openPreviousTree("0".repeat(40));
  expect(previous).toMatchObject({
    folder: projectRoot,
    missing: expect.stringContaining("000000000000 is not in"),
  });
  previous.remove();
  expect(existsSync(join(projectRoot, "package.json"))).toBe(true);
});
