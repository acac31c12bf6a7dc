// The reason of a handoff in the continuation prompt: quoted, and without its secrets.

import { expect, test } from "vitest";
import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { SECRET_PART, SECRETS } from "../protocol/secrets.ts";
import { usual } from "./checkpoints.ts";

test.each(["URL with a password", "AWS key id"])("the prompt has no %s", (kind) => {
  const { text, secrets } = continuationPrompt({
    checkpoint: usual,
    style: "standard",
    budget: { tokens: 4_000 },
    handoff: {
      handoff_id: "019bef72-3d00-7a31-b5c4-0d6e2f9a1b02",
      to_agent_type: "qa",
      trigger: null,
      reason: `login failed: ${SECRETS[kind]}`,
    },
  });
  expect(text).toMatch(/^> Reason: login failed: .*\[redacted: /m);
  expect(text).not.toMatch(SECRET_PART);
  expect(secrets).toBe(1);
});
