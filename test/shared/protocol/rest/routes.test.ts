/** Every operation of the bus is in the HTTP API, or has a reason not to be. */
import { expect, test } from "vitest";
import { COMMAND_OPS, isAnsweredOp, QUERY_OPS } from "../../../../shared/protocol/operations.ts";
import type { RestAct } from "../../../../shared/protocol/rest/route.ts";
import { BUS_ONLY, REST_ROUTES } from "../../../../shared/protocol/rest/routes.ts";

function opsOf(act: RestAct): readonly string[] {
  switch (act.kind) {
    case "query":
    case "command":
      return [act.op];
    case "events":
      return ["events"];
    case "list_checkpoints":
      return ["search", "history"];
    case "prune":
      return ["prunable", "remove"];
    case "artifact_content":
      return ["artifact_read"];
    case "recover_checkpoint":
      return ["recover", "recovery_point", "mission_resume", "resume_preview"];
    default:
      return [];
  }
}

const OPS: readonly string[] = [...COMMAND_OPS, ...QUERY_OPS.filter(isAnsweredOp)];
const routed = new Set(REST_ROUTES.flatMap(({ act }) => opsOf(act)));

test("every command and every query has a route, or a reason in BUS_ONLY", () => {
  const missing = OPS.filter((op) => !routed.has(op) && !Object.hasOwn(BUS_ONLY, op)).map(
    (op) =>
      `${op}: add a route to shared/protocol/rest/routes.ts (of a command also its answer in ANSWER_KIND of ` +
      "shared/protocol/generate/openapi.ts), run `npm run generate`, and call it in " +
      "test/fleet/gateway/operations.test.ts; or add the op to BUS_ONLY with the reason",
  );
  expect(missing).toEqual([]);
});

test("BUS_ONLY names operations that exist and have no route, each with a reason", () => {
  for (const [op, reason] of Object.entries(BUS_ONLY)) {
    expect(OPS, op).toContain(op);
    expect(routed, `${op} has a route; remove it from BUS_ONLY`).not.toContain(op);
    expect(reason, op).toMatch(/\w+ \w+/);
  }
});

test("every route has its own id, and its own method and path", () => {
  const distinct = (names: readonly string[]) => expect(new Set(names).size).toBe(names.length);
  distinct(REST_ROUTES.map(({ id }) => id));
  distinct(REST_ROUTES.map(({ method, path }) => `${method} ${path.replace(/\{\w+\}/g, "{}")}`));
});
