// The reasons that an agent gives are valid members of a checkpoint.

import { expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { reasonText } from "../../../../shared/sdk/agent/messages.ts";
import { SECRET_PART, SECRETS } from "../../protocol/secrets.ts";

test("a long reason is cut between characters, because half of one would make the command invalid", () => {
  for (const text of ["😀".repeat(2_000), `.${"😀".repeat(2_000)}`]) {
    for (const reason of [reasonText(text), reasonText(new Error(text))]) {
      expect(reason.isWellFormed()).toBe(true);
      expect(reason).toHaveLength(LIMITS.handoff_reason_chars_max);
    }
  }
});

test.each(Object.entries(SECRETS))(
  "a %s at the end of a long reason is removed before the cut",
  (_, secret) => {
    const long = `${"x".repeat(LIMITS.handoff_reason_chars_max - 20)} ${secret}`;
    expect(reasonText(new Error(long))).not.toMatch(SECRET_PART);
  },
);
