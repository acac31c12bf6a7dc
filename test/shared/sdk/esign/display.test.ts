/** The members that a display adds to a checkpoint, and that no record can bring itself. */
import { expect, test } from "vitest";
import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import { withAnswered, withSignatures } from "../../../../shared/sdk/esign/display.ts";

const record = { metadata: { version: 2, checkpoint_id: "chk" }, execution_state: { phase: "testing" } };
const checkpoint = record as unknown as Parameters<typeof withSignatures>[0];
const block = (version: number) => ({ state: "valid", printed_name: "Ada", version }) as EsignBlock;

test("signatures of the shown version and of others are apart", () => {
  const listed = { ...block(2), signed: {}, entry: "{}", passkey_acts: [] };
  expect(withSignatures(checkpoint, [block(1), listed])).toEqual({
    ...record,
    electronic_signatures: [block(2)],
    other_versions_signatures: [block(1)],
  });
});

test("what an agent wrote under their names is not shown", () => {
  const forged = {
    ...record,
    electronic_signatures: [block(2)],
    other_versions_signatures: [block(1)],
    electronic_signatures_left_out: 1,
    electronic_signatures_unread: "TIMEOUT",
  } as unknown as typeof checkpoint;
  expect(withSignatures(forged, [])).toEqual(record);
  expect(withAnswered(forged, {})).toEqual(record);
  expect(withAnswered(forged, { electronic_signatures_unread: "UNAVAILABLE" })).toEqual({
    ...record,
    electronic_signatures_unread: "UNAVAILABLE",
  });
});

test("an answer without signatures leaves the checkpoint as it is, and says what it leaves out", () => {
  expect(withAnswered(checkpoint, {})).toBe(checkpoint);
  const answer = { electronic_signatures: [block(2)], electronic_signatures_left_out: 3, restored: [] };
  expect(withAnswered(checkpoint, answer)).toEqual({
    ...record,
    electronic_signatures: [block(2)],
    electronic_signatures_left_out: 3,
  });
});
