/** The marks that count for the report of redaction, and the words of the report. */
import { expect, test } from "vitest";
import { activityOfTurn, marksOf, redactionNotice } from "../../../services/hook/payload/redaction-notice.ts";

const ACTIVITY = {
  ...{ goal: null, prompt: "Thank you", tool_calls: 1, usage: {} },
  message: "I used [redacted: GitHub token]",
  files: ["build/[redacted]/out.ts"],
  commands: [{ command: "login [redacted]", at: "2026-01-01T00:00:00.000Z" }],
};
const SESSION = { activity: ACTIVITY, turn_began_at: "2026-01-01T00:01:00.000Z" };

test("a turn has the message of its own event alone, and the files as those of the session", () => {
  const notice = (payload: Readonly<Record<string, unknown>>) =>
    redactionNotice(activityOfTurn(SESSION, { payload }));
  expect(notice({})).toContain("this turn (files of the session: 1 known secret),");
  expect(notice({ last_assistant_message: "new" })).toContain(
    "(files of the session: 1 known secret; last message: 1 GitHub token)",
  );
  expect(notice({ prompt_response: "new" })).toContain("; last message: 1 GitHub token)");
});

test("the report does not say that Fleet removed what a mark stands for", () => {
  const notice = redactionNotice({ prompt: "a log with [redacted]" });
  expect(notice).toContain("(prompt: 1 known secret)");
  expect(notice).not.toMatch(/removed/);
  expect(redactionNotice({ prompt: "[redacted: by me]" })).toBeUndefined();
});

test("marks with a rule that were given do not count, for each kind of text", () => {
  const token = "[redacted: GitHub token]";
  expect(marksOf({ prompt: `${token} ${token}` }, { prompt: `ghp_x ${token}` })).toEqual([
    "prompt: 1 GitHub token",
  ]);
  expect(marksOf({ prompt: token }, { prompt: `${token} ${token}` })).toEqual([]);
  expect(marksOf({ files: [token] }, { prompt: token })).toEqual(["files: 1 GitHub token"]);
  const commands = [{ command: `echo ${token}` }];
  expect(marksOf({ commands }, { commands })).toEqual([]);
  // The hook process leaves these, before the helper gets the text.
  expect(marksOf({ message: "[redacted]" }, { message: "[redacted]" })).toEqual([
    "last message: 1 known secret",
  ]);
});
