// The manual of the SDK has the moments and the frequency of checkpoints as the table has them.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CHECKPOINT_AFTER, MANDATORY_MOMENTS } from "../../../../shared/protocol/checkpoint-moments.ts";
import { projectRoot } from "../../../harness/project-root.ts";

const manual = readFileSync(join(projectRoot, "shared/sdk/README.md"), "utf8").replaceAll(/\s+/g, " ");

test("every phase with the event after which a checkpoint is due", () => {
  for (const [phase, event] of Object.entries(CHECKPOINT_AFTER))
    expect(manual).toContain(`| ${phase} | ${event} |`);
});

test("every mandatory moment", () => {
  for (const { when } of MANDATORY_MOMENTS) expect(manual).toContain(when);
});
