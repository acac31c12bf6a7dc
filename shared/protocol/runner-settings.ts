/**
 * The settings file of a runner: the agent types for which it starts agents, how, and how many. One schema,
 * so that a wrong file is answered with all of its mistakes.
 */
import { z } from "zod";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { tokenSchema } from "./ids.ts";

/** The names allowed in braces in a command, in values of the environment and in the working folder. */
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

/** The channels by which an agent gets its prompt. */
export const PROMPT_CHANNELS = ["file", "stdin", "paste"] as const;

const known = new Set<string>(PLACEHOLDERS);

/** A text without unknown placeholders, which would reach the agent unreplaced. */
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

/** The place and the resources of Kubernetes Jobs. */
export const kubernetesSettingsSchema = z.strictObject({
  namespace: z.string().min(1).default("default"),
  image: z.string().min(1),
  service_account: z.string().min(1).optional(),
  image_pull_secrets: z.array(z.string().min(1)).default([]),
  /** Kubernetes quantities: `{"cpu": "1", "memory": "2Gi"}`. */
  requests: labels.default({}),
  limits: labels.default({}),
  labels: labels.default({}),
  node_selector: labels.default({}),
  /** Secrets whose entries become variables of the agent's environment, for example API keys. */
  env_from_secrets: z.array(z.string().min(1)).default([]),
  run_as_user: z.int().min(1).default(1_000),
  /** The seconds for which a finished Job is kept for inspection. */
  kept_seconds: z.int().min(0).default(3_600),
});

const agentFields = {
  profile: z.enum(PROFILES, { error: `one of ${PROFILES.join(", ")}` }).default("command"),
  launcher: z.enum(LAUNCHERS, { error: `one of ${LAUNCHERS.join(", ")}` }).default("process"),
  /** The program and its arguments, one element each, without a shell. Default: the profile's. */
  command: z.array(template).min(1).optional(),
  /** The command with which a restarted agent continues its own session. Default: the profile's, else `command`. */
  resume_command: z.array(template).min(1).optional(),
  /** Arguments added after the command. */
  args: z.array(template).default([]),
  env: z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "a name of letters, digits and _"), z.string())
    .default({}),
  /** The working folder. Default: the runner's; in Kubernetes the image's. */
  cwd: template.optional(),
  /** The channel of the prompt. Default: the profile's. */
  prompt: z.enum(PROMPT_CHANNELS, { error: `one of ${PROMPT_CHANNELS.join(", ")}` }).optional(),
  /**
   * True: the prompt becomes part of the program's system prompt, if the profile knows an option for it. Default: true, unless `command`
   * or `prompt` is set.
   */
  system_prompt: z.boolean().optional(),
  /**
   * True: the prompt ends with instructions for writing checkpoints from a terminal. Default: the profile's.
   */
  instructions: z.boolean().optional(),
  /** The concurrency limit of this agent type. */
  max_agents: z.int().min(1).default(2),
  /** The time limit of one agent. Default: none. */
  run_ms: ms.optional(),
  /**
   * True: the runner sends heartbeats for the agent. False: the agent sends them itself, with its current
   * step.
   */
  heartbeats: z.boolean().default(true),
  /** Exit codes with another meaning than usual in this program. */
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
  /** The concurrency limit of all agent types together. */
  max_agents: z.int().min(1).default(4),
  /** The fate of running agents when the runner is stopped. */
  on_stop: z.enum(["stop", "leave"], { error: "one of stop, leave" }).default("stop"),
  /** The time between asking an agent to end and killing it. */
  grace_ms: z.int().min(1).max(300_000).default(20_000),
  /** The message that asks an agent for a checkpoint; `{command}` and `{task}` are filled in. Default: that of `fleet hook message`. */
  checkpoint_message: z.string().min(1).max(20_000).optional(),
  /** The size of the log of one agent's output. */
  log_bytes: z
    .int()
    .min(1_024)
    .default(10 * 1_024 * 1_024),
  /** The number of folders of ended and reported agents that are kept for inspection. */
  kept_folders: z.int().min(0).default(100),
  agents: z
    .record(tokenSchema, runnerAgentSchema)
    .refine((agents) => Object.keys(agents).length > 0, "at least one agent type"),
});

export type KubernetesSettings = z.output<typeof kubernetesSettingsSchema>;
export type RunnerAgent = z.output<typeof runnerAgentSchema>;
export type RunnerSettings = z.output<typeof runnerSettingsSchema>;

/**
 * An agent's own report of its end, as JSON in the file that `FLEET_EXIT_FILE` names. It takes precedence
 * over the exit code.
 */
export const exitWordSchema = z.looseObject({
  class: z.enum(FAILURE_CLASSES).optional(),
  details: z.string().max(2_000).optional(),
  resets_at: z.iso.datetime({ offset: true }).optional(),
});

export type ExitWord = z.output<typeof exitWordSchema>;
