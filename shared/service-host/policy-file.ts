/**
 * The agent types of a fleet and its policies of handoffs and recoveries: the settings and the file that the
 * services share.
 */
import { BUILTIN_AGENT_TYPES } from "../protocol/checkpoint.ts";
import { type FieldProblem, FleetError } from "../protocol/errors.ts";
import { DEFAULT_POLICIES, type Policies, policySchema } from "../protocol/policy.ts";
import { ConfigError, type ConfigOf, list, optional, text } from "../runtime/settings/config.ts";
import { inFile, readSettingsFile } from "./settings-file.ts";

const NAME = "FLEET_POLICY";

export const agentFields = {
  agentTypes: list("FLEET_AGENT_TYPES", {
    default: [],
    description: "Agent types in addition to architecture, implementation, qa and documentation",
  }),
  policyFile: optional(
    text(NAME, {
      description: "File with the policy of handoffs and recoveries; JSON",
      defaultNote: "the built-in policy",
    }),
  ),
} as const;

/** The agent types and policies as the services use them. */
export interface AgentRules {
  readonly agentTypes: readonly string[];
  readonly policies: Policies;
}

/** All agent types: the built-in and the registered ones. */
export function knownAgentTypes(agentTypes: readonly string[]): ReadonlySet<string> {
  return new Set([...BUILTIN_AGENT_TYPES, ...agentTypes]);
}

/** Throws INVALID with the known agent types. */
export function requireAgentType(
  path: string,
  given: string | undefined,
  agentTypes: ReadonlySet<string>,
): void {
  if (given === undefined || agentTypes.has(given)) return;
  throw new FleetError("INVALID", "the agent type is not registered", {
    fields: [
      {
        path,
        expected: `one of ${[...agentTypes].join(", ")}`,
        got: given,
      },
    ],
    details: { remedy: "register further types in FLEET_AGENT_TYPES" },
  });
}

/** Throws ConfigError. */
export function readAgentRules({ agentTypes, policyFile }: ConfigOf<typeof agentFields>): AgentRules {
  if (policyFile === undefined) return { agentTypes, policies: DEFAULT_POLICIES };
  const file = { name: NAME, path: policyFile };
  const policies = readSettingsFile(file, policySchema);
  const problems = unknownTypes(policies, knownAgentTypes(agentTypes));
  if (problems.length > 0) throw new ConfigError(problems.map((problem) => inFile(file, problem)));
  return { agentTypes, policies };
}

/** Every handoff to an unregistered type would fail, so the start reports it. */
function unknownTypes({ defaults, tenants }: Policies, known: ReadonlySet<string>): FieldProblem[] {
  const expected = `one of ${[...known].join(", ")}; others are named in FLEET_AGENT_TYPES`;
  const problems: FieldProblem[] = [];
  const check = (path: string, agentType: string | undefined): void => {
    if (agentType !== undefined && !known.has(agentType)) problems.push({ path, expected, got: agentType });
  };
  const checkPart = (path: string, part: Policies["defaults"] | undefined): void => {
    for (const [phase, agentType] of Object.entries(part?.next_agent?.by_next_phase ?? {})) {
      check(`${path}.next_agent.by_next_phase.${phase}`, agentType);
    }
    for (const [from, to] of Object.entries(part?.recovery?.other_agent_type ?? {})) {
      check(`${path}.recovery.other_agent_type`, from);
      check(`${path}.recovery.other_agent_type.${from}`, to);
    }
  };
  checkPart("defaults", defaults);
  for (const [tenant, own] of Object.entries(tenants)) {
    checkPart(`tenants.${tenant}.defaults`, own.defaults);
    for (const [agentType, part] of Object.entries(own.agent_types ?? {})) {
      check(`tenants.${tenant}.agent_types`, agentType);
      checkPart(`tenants.${tenant}.agent_types.${agentType}`, part);
    }
  }
  return problems;
}
