/** The checkpoint tool of seed 004, with a real writer, reader, store and nats-server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { checkpointFunction, checkpointTool, type FleetClient } from "../../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";

let fleet: InProcessFleet;
let client: FleetClient;
beforeAll(async () => {
  fleet = await openInProcessFleet();
  client = await fleet.client("agent-7");
});
afterAll(() => fleet?.close());

const summary = {
  goal: "Research agent coordination patterns",
  completed: ["Found 3 official docs"],
  pending: ["Synthesize findings"],
  decisions: ["Using Atlas Vector Search (better for semantic queries)"],
};
const pointer = { nextAction: "Read docs/agents.md", currentContext: "docs", phase: "research" };
const of = (taskId: string) => ({ taskId, agentType: "documentation" });

test("seed 004 tool, and best practice 3 (track tokens): checkpoint(summary, resumePointer, tokensUsed) returns the id, the agent and the time", async () => {
  const checkpoint = checkpointFunction(client, of("tool"));
  const result = await checkpoint(summary, pointer, 45_000);
  expect(result).toEqual({
    checkpointId: expect.stringMatching(/^chk-[0-9a-f-]{36}$/),
    agentId: "agent-7",
    createdAt: expect.stringMatching(/^20\d\d-.*Z$/),
    outcome: "committed",
    advice: [],
    handoffAdvised: [],
  });
  const stored = await client.getCheckpoint(result.checkpointId);
  expect(stored).toMatchObject({
    metadata: { agent_id: "agent-7", agent_type: "documentation", trigger: { reason: "manual" } },
    execution_state: {
      phase: "implementing",
      goal: summary.goal,
      completed_items: [{ title: "Found 3 official docs" }],
      pending_items: [{ title: "Synthesize findings" }],
      resume_pointer: { next_action: "Read docs/agents.md", current_context: "docs", phase: "research" },
    },
    context_summary: { key_decisions: [{ decision: summary.decisions[0] }] },
    metrics: { tokens_consumed: 45_000 },
  });
  expect(stored?.metadata.committed_at).toBe(result.createdAt);
});

test("seed 004 anti-pattern 1: a next action that says nothing is refused, with the reason and a good example, and nothing is stored", async () => {
  const checkpoint = checkpointFunction(client, of("vague"));
  await expect(checkpoint(summary, { nextAction: "Continue working" })).rejects.toMatchObject({
    code: "INVALID",
    fields: [
      {
        path: "resumePointer.nextAction",
        expected: expect.stringContaining("for example: Analyze source 3"),
      },
    ],
  });
  expect(await client.getTask("vague")).toBeNull();
});

test("advice names the fields of the call", async () => {
  const tool = checkpointTool(client, of("advised"));
  const empty = { ...summary, completed: [], decisions: ["Use LMDB"] };
  const { advice } = await tool.call({ summary: empty, resumePointer: { nextAction: "Run the tests" } });
  expect(advice.map(({ path, rule }) => `${path} ${rule}`)).toEqual([
    "resumePointer.nextAction next_action_without_place",
    "summary.completed completed_empty",
    "summary.decisions.0 decision_without_reason",
  ]);
  const again = await tool.call({ summary: empty, resumePointer: pointer });
  expect(again.advice.map(({ rule }) => rule)).toContain("too_soon");
});

test("every argument of another form is refused by name", async () => {
  const tool = checkpointTool(client, of("odd"));
  const call = { summary, resumePointer: pointer };
  for (const [input, path] of [
    [null, ""],
    [{ ...call, summary: { ...summary, completed: "all" } }, "summary.completed"],
    [{ ...call, summary: { ...summary, goal: "" } }, "summary.goal"],
    [{ ...call, resumePointer: {} }, "resumePointer.nextAction"],
    [{ ...call, tokensUsed: -1 }, "tokensUsed"],
    [{ ...call, reason: "mood" }, "reason"],
    [
      { ...call, summary: { ...summary, pending: Array(LIMITS.array_items_max + 1).fill("x") } },
      "summary.pending",
    ],
  ] as const)
    await expect(tool.call(input)).rejects.toMatchObject({ code: "INVALID", fields: [{ path }] });
  expect(await client.getTask("odd")).toBeNull();
});

test("the definition of the tool has a JSON Schema that requires what the seed requires", () => {
  const { name, inputSchema } = checkpointTool(client, of("schema"));
  expect(name).toBe("checkpoint");
  expect(inputSchema).toMatchObject({
    type: "object",
    required: ["summary", "resumePointer"],
    additionalProperties: false,
    properties: {
      summary: { required: ["goal", "completed", "pending"] },
      resumePointer: { required: ["nextAction"] },
      tokensUsed: { type: "integer" },
    },
  });
});
