// The policy file: read once, completely or not at all, and all its mistakes are reported at once.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_POLICIES, DEFAULT_POLICY, policyOf } from "../../../shared/protocol/policy.ts";
import { ConfigError } from "../../../shared/runtime/settings/config.ts";
import { readAgentRules } from "../../../shared/service-host/policy-file.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-policy-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(content: unknown): string {
  const path = join(folder, "policy.json");
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

function read(content: unknown, agentTypes: readonly string[] = []) {
  return readAgentRules({ agentTypes, policyFile: written(content) });
}

function problems(content: unknown): string[] {
  try {
    read(content);
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map(({ name, expected, got }) => `${name} | ${expected} | ${got}`);
    throw error;
  }
  return [];
}

test("without a file the built-in policy applies", () => {
  expect(readAgentRules({ agentTypes: ["legal"], policyFile: undefined })).toEqual({
    agentTypes: ["legal"],
    policies: DEFAULT_POLICIES,
  });
});

test("the member $schema, by which an editor finds the schema, is no setting", () => {
  const defaults = { first_checkpoint_ms: 60_000 };
  expect(read({ $schema: "./settings-policy.json", defaults }).policies).toMatchObject({ defaults });
  expect(problems({ $scheme: "", defaults })).toHaveLength(1);
});

test("a path that is not a file, or far too large, is refused without reading", () => {
  const pipe = join(folder, "pipe");
  expect(spawnSync("mkfifo", [pipe]).status).toBe(0);
  const large = join(folder, "large");
  writeFileSync(large, "");
  truncateSync(large, 300_000_000);
  for (const [path, expected] of [
    [pipe, "a file"],
    [folder, "a file"],
    [large, "a file of at most"],
    [join(folder, "none"), "a file that can be read"],
  ] as const) {
    expect(() => readAgentRules({ agentTypes: [], policyFile: path }), path).toThrow(expected);
  }
});

test("an agent type's setting overrides its tenant's, and that overrides the default", () => {
  const { policies } = read(
    {
      defaults: { offer: { deadline_ms: 30_000, max_attempts: 5 } },
      tenants: {
        acme: {
          defaults: { offer: { max_attempts: 2 }, next_agent: { by_next_phase: { reviewing: "legal" } } },
          agent_types: { legal: { first_checkpoint_ms: 60_000, triggers: { context_utilization: null } } },
        },
      },
    },
    ["legal"],
  );
  expect(policyOf(policies, "other", "qa").offer).toEqual({
    ...DEFAULT_POLICY.offer,
    deadline_ms: 30_000,
    max_attempts: 5,
  });
  const legal = policyOf(policies, "acme", "legal");
  expect(legal).toMatchObject({
    offer: { deadline_ms: 30_000, max_attempts: 2 },
    first_checkpoint_ms: 60_000,
  });
  expect(legal.triggers).toMatchObject({ context_utilization: null, error_count: 5 });
  expect(legal.next_agent.by_next_phase).toMatchObject({ testing: "qa", reviewing: "legal" });
});

test("for an unknown name, the fields are named that were probably meant, or that exist", () => {
  const expected = (content: unknown) => problems(content)[0]?.split(" | ")[1];
  const NO_FIELD = "no field of this name";
  expect(expected({ retention: { days: 7 } })).toBe(
    `${NO_FIELD} (did you mean retention_floor or defaults.retention?)`,
  );
  expect(expected({ defaults: { recovrey: {} } })).toBe(`${NO_FIELD} (did you mean recovery?)`);
  expect(expected({ tenants: { acme: { agent_types: { qa: { offer: { max_atempts: 2 } } } } } })).toBe(
    `${NO_FIELD} (did you mean max_attempts?)`,
  );
  expect(expected({ tenants: { acme: { colors: 1 } } })).toBe(
    `${NO_FIELD} (the fields here are defaults, agent_types, refuse_secrets, retention_floor, access_log, access_log_days)`,
  );
});

describe("a mistake is reported with its path and the expected value", () => {
  test("all mistakes at once", () => {
    const found = problems({
      defaults: { offer: { deadline_ms: 5, max_attempts: "three" }, first_checkpoint_ms: 0.5 },
      tenants: { "a b": {}, acme: { agent_types: { qa: { triggers: { context_utilization: 7 } } } } },
    });
    expect(found).toHaveLength(5);
    expect(found.join("\n")).toMatch(/FLEET_POLICY: defaults\.offer\.deadline_ms \| at least 1000 \| 5/);
    expect(found.join("\n")).toMatch(/defaults\.offer\.max_attempts \| .+ \| "?three/);
    expect(found.join("\n")).toMatch(
      /tenants\.acme\.agent_types\.qa\.triggers\.context_utilization \| at most 1/,
    );
  });

  test.each([1_000, 59_999, 604_800_001, 90_000.5])(
    "a breaker that half-opens after %d ms",
    (half_open_ms) => {
      const [found, ...more] = problems({ tenants: { acme: { defaults: { recovery: { half_open_ms } } } } });
      expect(more).toEqual([]);
      expect(found).toMatch(/^FLEET_POLICY: tenants\.acme\.defaults\.recovery\.half_open_ms \| /);
      if (Number.isInteger(half_open_ms)) expect(found).toContain("60000 to 604800000, or null");
    },
  );

  test("a misspelt name, instead of a silent default", () => {
    expect(problems({ defaults: { ofer: {} } }).join()).toContain("ofer");
  });

  test("an unregistered agent type, at any place", () => {
    const found = problems({
      defaults: { next_agent: { by_next_phase: { testing: "tester" } } },
      tenants: {
        acme: { agent_types: { lawyer: { next_agent: { by_next_phase: { planning: "planner" } } } } },
        beta: { defaults: { recovery: { other_agent_type: { qa: "qa-2", "qa-3": "qa" } } } },
      },
    });
    expect(found.map((line) => line.split(" | ")[0])).toEqual([
      "FLEET_POLICY: defaults.next_agent.by_next_phase.testing",
      "FLEET_POLICY: tenants.acme.agent_types",
      "FLEET_POLICY: tenants.acme.agent_types.lawyer.next_agent.by_next_phase.planning",
      "FLEET_POLICY: tenants.beta.defaults.recovery.other_agent_type.qa",
      "FLEET_POLICY: tenants.beta.defaults.recovery.other_agent_type",
    ]);
    expect(found[0]).toContain("architecture, implementation, qa, documentation");
  });

  test.each([
    ["not JSON", "{", "a JSON text"],
    ["a name given twice", '{"defaults":{},"defaults":{}}', "each member name once"],
    ["not an object", "[]", "an object"],
  ])("%s", (_what, content, expected) => {
    expect(problems(content).join()).toContain(expected);
  });

  test("a missing file", () => {
    const path = join(folder, "nowhere.json");
    expect(() => readAgentRules({ agentTypes: [], policyFile: path })).toThrow(/FLEET_POLICY: .*ENOENT/);
  });
});
