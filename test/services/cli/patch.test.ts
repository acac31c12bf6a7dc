// A misspelled field in a patch is reported. A field that is only unknown is not.

import { expect, test } from "vitest";
import { checkpointShape, misspellingsOf } from "../../../services/cli/input/checkpoint/patch.ts";

const shape = await checkpointShape();

test.each([
  [{ execution_state: { pahse: "testing" } }, "execution_state.pahse", "phase"],
  [{ execution_state: { pahse: null } }, "execution_state.pahse", "phase"],
  [{ exection_state: {} }, "exection_state", "execution_state"],
  [
    { execution_state: { pending_items: ["a", { titel: "b" }] } },
    "execution_state.pending_items.1.titel",
    "title",
  ],
  [
    { execution_state: { resume_pointer: { next_acton: "x" } } },
    "execution_state.resume_pointer.next_acton",
    "next_action",
  ],
  [{ metadata: { label: {} } }, "metadata.label", "labels"],
])("%j", (patch, path, meant) => expect(misspellingsOf(patch, shape)).toEqual([{ path, meant }]));

test.each([
  { execution_state: { phase: "testing", progress_percent: null, my_own_measure: 1 } },
  { metadata: { labels: { pahse: "x", titel: "y" } } },
  { metrics: { cost: { phaze: 1 } } },
  { extra: { pahse: 1 }, at: 1, __proto__x: 2 },
  { execution_state: null },
  {},
])("nothing is reported in %j", (patch) => expect(misspellingsOf(patch, shape)).toEqual([]));
