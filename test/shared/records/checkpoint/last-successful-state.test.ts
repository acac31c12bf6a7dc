import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { refusal } from "../../../harness/records/handoffs.ts";
import type { TestRecords } from "../../../harness/records/records.ts";
import { create, ENGINES, finalize, input, openTestRecords, send } from "../../../harness/records/records.ts";
import { flip } from "../search/corpus.ts";

const TASK = "task-1";
const WRITTEN = "checkpoint.recovery.last_successful_state";
const PATCHED = "patch.recovery.last_successful_state";

describe.each(ENGINES)("the last successful state that a caller names on %s", (engine) => {
  let bench: TestRecords;
  let ids: [string, string, string];
  beforeEach(async () => {
    bench = await openTestRecords(engine);
    const written: string[] = [];
    for (let n = 0; n < 3; n += 1)
      written.push((await create(bench.repository, { task: TASK })).checkpoint_id);
    ids = written as typeof ids;
  });
  afterEach(() => bench.close());

  const naming = (id: string, commandId = uuidv7()) => {
    const checkpoint = { ...input(), recovery: { last_successful_state: id } };
    return create(bench.repository, { task: TASK, checkpoint, commandId });
  };
  const patch = (checkpoint_id: string, id: string) =>
    send(
      bench.repository,
      "update",
      { checkpoint_id, patch: { recovery: { last_successful_state: id } } },
      { task: TASK },
    );
  const stateOf = async (id: string) =>
    (await bench.repository.get("default", id)).recovery.last_successful_state;
  const refused = (path: string, expected: string) => ({ code: "INVALID", fields: [{ path, expected }] });

  test("an older checkpoint that verifies is kept, whether a draft or finalized", async () => {
    const [first, second, third] = ids;
    await finalize(bench.repository, first, "succeeded", { task: TASK });
    expect(await stateOf((await naming(first)).checkpoint_id)).toBe(first);
    expect(await stateOf((await naming(third)).checkpoint_id)).toBe(third);
    await patch(third, first);
    expect(await stateOf(third)).toBe(first);
    await patch(third, second);
    expect(await stateOf(third)).toBe(second);
  });

  test("neither the checkpoint itself nor a younger one", async () => {
    const [first, second, third] = ids;
    const own = uuidv7();
    expect(await refusal(naming(own, own))).toMatchObject({ code: "INVALID", fields: [{ path: WRITTEN }] });
    for (const id of [second, third]) {
      expect(await refusal(patch(second, id))).toMatchObject(
        refused(PATCHED, "a checkpoint that was committed before this one"),
      );
    }
    expect(await stateOf(second)).toBe(first);
  });

  test("no corrupt checkpoint, before and after its quarantine", async () => {
    const [first, second, third] = ids;
    await flip(bench.store, TASK, first);
    const corrupt = "a checkpoint that verifies";
    for (let n = 0; n < 2; n += 1) {
      expect(await refusal(naming(first))).toMatchObject(refused(WRITTEN, corrupt));
      expect(await refusal(patch(third, first))).toMatchObject(refused(PATCHED, corrupt));
      expect((await refusal(bench.repository.get("default", first))).code).toBe("CORRUPT");
    }
    expect(await stateOf(third)).toBe(second);
  });
});
