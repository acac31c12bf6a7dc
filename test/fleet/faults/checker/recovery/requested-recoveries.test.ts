/** The checker and the recoveries that operators request, with and without a failure before them. */
import { describe, expect, test } from "vitest";
import { POLICY } from "../../environment/policy.ts";
import { judge } from "../checker.ts";
import { ScriptedRecoveries } from "./scripted-recoveries.ts";

const { recovery: RULES } = POLICY.defaults;

const violations = (history: ScriptedRecoveries) => judge(history.evidence()).violations;
const kinds = (history: ScriptedRecoveries): string[] => [
  ...new Set(violations(history).map(({ kind }) => kind)),
];
const texts = (history: ScriptedRecoveries): string[] => violations(history).map(({ text }) => text);

/** The task is blocked because its agents have failed until the budget was spent. */
function blocked(): ScriptedRecoveries {
  const history = new ScriptedRecoveries();
  history.startWork();
  for (let n = 0; n < RULES.attempts + RULES.previous_attempts; n += 1) {
    history.reportFailure("crash");
    history.recover(`next-${n}`, 1);
  }
  history.reportFailure("crash");
  history.block("attempts_spent");
  return history;
}

describe("a recovery that an operator requests", () => {
  test("takes the task from its agent, ends its handoff, and has no limit of attempts", () => {
    const history = blocked();
    history.request();
    history.recover("b", 1);
    history.reportFailure("crash");
    history.block("attempts_spent");
    history.request();
    history.recover("c", 1);
    history.initiate("c", history.fence);
    history.request();
    history.recover("d", 1);
    history.progress(2, "d");
    expect(texts(history)).toEqual([]);
    expect(judge(history.evidence()).recoveries).toMatchObject({ could_not: { attempts_spent: 2 } });
  });

  test("gives the attempts of the policy again only if it restores the budget", () => {
    const all = (resets: boolean): ScriptedRecoveries => {
      const history = blocked();
      history.request({ resets });
      history.recover("b", 1);
      history.reportFailure("crash");
      history.recover("c", 1);
      return history;
    };
    expect(kinds(all(true))).toEqual([]);
    expect(kinds(all(false))).toEqual(["budget_overdrawn"]);
  });

  test("is blocked if its checkpoint is removed or damaged, and for no other reason", () => {
    const named = (change: (history: ScriptedRecoveries, first: string) => void, reason: string) => {
      const history = new ScriptedRecoveries();
      history.startWork();
      const { checkpoint_id: first } = history.current[0]!;
      history.complete(2, "a");
      history.request({ checkpoint: first });
      change(history, first);
      history.block(reason);
      return texts(history);
    };
    expect(named((history, first) => history.damage(first), "chain_broken")).toEqual([]);
    const unfounded = ["a task was blocked without a cause"];
    expect(named(() => {}, "chain_broken")).toEqual(unfounded);
    expect(named(() => {}, "no_checkpoint")).toEqual(unfounded);
  });

  test("is the only reason to end a handoff that is neither taken nor replaced", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    const id = history.initiate("a", history.fence);
    history.cancel(id, "superseded", "command-2");
    expect(texts(history)).toContain("the end of a handoff has no cause");
  });
});
