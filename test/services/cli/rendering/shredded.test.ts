// The history of a task whose content was removed: by retention, or because two persons had the task shredded.

import { expect, test } from "vitest";
import { renderCheckpoint } from "../../../../services/cli/rendering/checkpoints/checkpoint.ts";
import { renderHistory } from "../../../../services/cli/rendering/checkpoints/history.ts";
import { personsText } from "../../../../services/cli/rendering/keys/shred-certificate.ts";
import { renderShreds } from "../../../../services/cli/rendering/operations/holds.ts";
import { type Checkpoint, checkpointSchema } from "../../../../shared/protocol/checkpoint.ts";
import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { ShredState } from "../../../../shared/protocol/shred.ts";
import { view } from "./view.ts";

const gone = [{ seq: 1 }, { seq: 2 }] as RemovedCheckpoint[];
const kept: Checkpoint = checkpointSchema.parse({
  schema_version: "1.1",
  metadata: {
    ...{ checkpoint_id: "01a20034-080b-7e0f-afff-92b62777977f", tenant: "default", task_id: "auth" },
    ...{ agent_id: "agent-1", agent_type: "qa", parent_ids: [], trigger: { reason: "progress" } },
    ...{ timestamp: "2026-01-04T15:30:00.000Z", committed_at: "2026-01-04T15:30:00.000Z" },
    ...{ status: "draft", version: 1, seq: 3 },
  },
  execution_state: { phase: "testing" },
  compliance: { event_log_ref: "audit/default/auth#3", retention_policy: "standard", hash: "0".repeat(64) },
});

const textOf = (shred: ShredState | undefined, checkpoints: Checkpoint[] = []) =>
  renderHistory(
    {
      ...{ task: "auth", order: "newest", removed: gone, signatures: [] },
      ...{ checkpoints, next: undefined, shred },
    },
    view,
  );

test("checkpoints are removed by retention, unless the task was shredded", () => {
  expect(textOf(undefined)).toMatch(/2 checkpoints removed by retention, between #1 and #2$/);
  const shredded = textOf("shredded");
  expect(shredded).not.toContain("retention");
  expect(shredded).toContain("2 checkpoints removed, between #1 and #2\n");
  expect(shredded).toMatch(/two persons had the task shredded; .*`fleet task shred-certificate auth`$/);
});

test("a shredding that is requested or in progress is shown beside the checkpoints that are left", () => {
  expect(textOf("requested", [kept])).toContain(
    "the removal of all content of the task is requested: `fleet task show auth`",
  );
  expect(textOf("approved", [kept])).toContain("all its content is being removed");
});

test("names without issued credentials are named, and what is not known is not asserted", () => {
  expect(personsText(["human=bob"])).toContain("No credentials were issued for bob (person) at that time");
  expect(personsText([])).toContain("Both had issued credentials at that time");
  expect(personsText(null)).toContain("only by the names in their credentials");
  const shred = {
    ...{ task_id: "auth", state: "shredded" as const, reason: "erasure", case: null, request_seq: 1 },
    ...{ requested_by: "human=ada", requested_at: "2026-01-04T15:30:00.000Z", expires_at: "" },
    ...{ approved_by: "human=bob", approved_at: null, approve_seq: null, ended_at: null, end_seq: null },
  };
  const shown = (unissued: readonly string[] | null) =>
    renderShreds({ shreds: [{ ...shred, without_credentials: unissued }], next: undefined }, view);
  expect(shown(["human=bob"])).toContain("No credentials were issued for bob (person)");
  expect(shown([])).not.toContain("credentials");
  expect(shown(null)).not.toContain("credentials");
});

test.each([
  [{}, "standard, kept until 2026-04-04 at least"],
  [{ retention_policy: "working" }, "working"],
  [{ retention_policy: "permanent" }, "permanent, kept for good"],
  [
    { retention_policy: "short", retention_floor: "regulated" },
    "short; floor regulated, kept until 2033-01-04 at least",
  ],
  [
    { retention_policy: "short", retention_floor: "P1D", retain_until: "2026-02-01T00:00:00.000Z" },
    "short; floor P1D, kept until 2026-02-01 at least",
  ],
])("a checkpoint shows the longer of its class and its floor: %j", (compliance, expected) => {
  const shown = renderCheckpoint({ ...kept, compliance: { ...kept.compliance, ...compliance } }, view);
  expect(shown).toMatch(new RegExp(`^Retention: +${expected}$`, "m"));
});
