/**
 * What a runner is told in its settings file: which agent types it starts agents for, how, and how many. One schema, so that a file
 * with several mistakes is answered with all of them.
 */
import { z } from "zod";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { tokenSchema } from "./ids.ts";

/** What may stand in braces in a command, in values of the environment and in the working folder. */
export const PLACEHOLDERS = [
  "agent_id",
  "agent_type",
  "checkpoint_id",
  "fence",
  "folder",
  "handoff_id",
  "prompt_file",
  "task_id",
  "tenant",
  "url",
] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

export const PROFILES = ["command", "claude-code", "codex", "gemini"] as const;
export type ProfileName = (typeof PROFILES)[number];

export const LAUNCHERS = ["process", "tmux", "kubernetes"] as const;
export type LauncherName = (typeof LAUNCHERS)[number];

export const PROMPT_CHANNELS = ["file", "stdin", "paste"] as const;

const known = new Set<string>(PLACEHOLDERS);

/** Text without a placeholder that nobody knows: it would reach the agent as it stands. */
const template = z
  .string()
  .min(1)
  .superRefine((text, context) => {
    for (const [found, name = ""] of text.matchAll(/\{([a-z_]+)\}/g)) {
      if (known.has(name)) continue;
      context.addIssue({
        code: "custom",
        message: `no ${found}; there are ${PLACEHOLDERS.map((one) => `{${one}}`).join(", ")}`,
      });
    }
  });

const ms = z.int().min(1);
const labels = z.record(z.string(), z.string());

/** Where the Jobs run and what each may take. */
export const kubernetesSettingsSchema = z.strictObject({
  namespace: z.string().min(1).default("default"),
  image: z.string().min(1),
  service_account: z.string().min(1).optional(),
  image_pull_secrets: z.array(z.string().min(1)).default([]),
  /** Quantities as Kubernetes writes them: `{"cpu": "1", "memory": "2Gi"}`. */
  requests: labels.default({}),
  limits: labels.default({}),
  labels: labels.default({}),
  node_selector: labels.default({}),
  /** Secrets whose entries become variables of the agent's environment: keys of models, for instance. */
  env_from_secrets: z.array(z.string().min(1)).default([]),
  run_as_user: z.int().min(1).default(1_000),
  /** How long a finished Job stays to be looked at. */
  kept_seconds: z.int().min(0).default(3_600),
});

const agentFields = {
  profile: z.enum(PROFILES, { error: `one of ${PROFILES.join(", ")}` }).default("command"),
  launcher: z.enum(LAUNCHERS, { error: `one of ${LAUNCHERS.join(", ")}` }).default("process"),
  /** Program and arguments, each one element; no shell reads them. Default: the profile's. */
  command: z.array(template).min(1).optional(),
  /** Put behind the command. */
  args: z.array(template).default([]),
  env: z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "a name of letters, digits and _"), z.string())
    .default({}),
  /** Working folder; default: the runner's. In Kubernetes the image's. */
  cwd: template.optional(),
  /** How the agent gets its prompt. Default: the profile's way. */
  prompt: z.enum(PROMPT_CHANNELS, { error: `one of ${PROMPT_CHANNELS.join(", ")}` }).optional(),
  /** Whether the prompt ends with how to write checkpoints from a terminal. Default: the profile's. */
  instructions: z.boolean().optional(),
  /** Of this type at once. */
  max_agents: z.int().min(1).default(2),
  /** Longer than this no agent of the type may run. Default: as long as it wants. */
  run_ms: ms.optional(),
  /** Whether the runner says for the agent that it lives; no, when the agent itself says so, with what it is at. */
  heartbeats: z.boolean().default(true),
  /** Exit codes that mean something else in this program than usual. */
  exit_codes: z
    .record(
      z.string().regex(/^\d{1,3}$/, "an exit code from 0 to 255"),
      z.enum(FAILURE_CLASSES, { error: `one of ${FAILURE_CLASSES.join(", ")}` }),
    )
    .default({}),
  kubernetes: kubernetesSettingsSchema.optional(),
};

export const runnerAgentSchema = z.strictObject(agentFields).superRefine((agent, context) => {
  const wrong = (path: string, message: string): void =>
    context.addIssue({ code: "custom", path: [path], message });
  const { profile, launcher, command, prompt, kubernetes } = agent;
  if (profile === "command" && command === undefined)
    wrong("command", "the program and its arguments, because the profile has none");
  if (launcher === "kubernetes" && kubernetes === undefined)
    wrong("kubernetes", "at least an image, because the launcher is kubernetes");
  if (prompt === "paste" && launcher !== "tmux") wrong("prompt", "paste only with the launcher tmux");
  if (prompt === "stdin" && launcher !== "process") wrong("prompt", "stdin only with the launcher process");
});

export const runnerSettingsSchema = z.strictObject({
  /** Of all types at once. */
  max_agents: z.int().min(1).default(4),
  /** What becomes of the agents when the runner is stopped. */
  on_stop: z.enum(["stop", "leave"], { error: "one of stop, leave" }).default("stop"),
  /** Between asking an agent to end and killing it. */
  grace_ms: z.int().min(1).max(300_000).default(20_000),
  /** Of what each agent prints. */
  log_bytes: z
    .int()
    .min(1_024)
    .default(10 * 1_024 * 1_024),
  /** Folders of agents that have ended and were reported, for people to look into. */
  kept_folders: z.int().min(0).default(100),
  agents: z
    .record(tokenSchema, runnerAgentSchema)
    .refine((agents) => Object.keys(agents).length > 0, "at least one agent type"),
});

export type KubernetesSettings = z.output<typeof kubernetesSettingsSchema>;
export type RunnerAgent = z.output<typeof runnerAgentSchema>;
export type RunnerSettings = z.output<typeof runnerSettingsSchema>;

/** What an agent may say about its own end, as JSON in the file that `FLEET_EXIT_FILE` names. It wins over its exit code. */
export const exitWordSchema = z.looseObject({
  class: z.enum(FAILURE_CLASSES).optional(),
  details: z.string().max(2_000).optional(),
  resets_at: z.iso.datetime({ offset: true }).optional(),
});

export type ExitWord = z.output<typeof exitWordSchema>;
