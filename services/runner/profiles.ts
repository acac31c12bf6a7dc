/**
 * The agent programs with a ready profile, as data: the command and the prompt channel of each. In a child process they run
 * non-interactively and read the prompt from standard input; in a tmux window they run interactively, and the prompt is pasted.
 */
import type { LauncherName, ProfileName, RunnerAgent } from "../../shared/protocol/runner-settings.ts";
import type { PromptChannel } from "./launchers/launcher.ts";

export interface Invocation {
  readonly command: readonly string[];
  readonly prompt: PromptChannel;
}

/** The first message to a program that has the prompt in its system prompt already. */
export const START_MESSAGE = "Continue the task of your system prompt. Begin with its next action.\n";

interface Profile {
  /** Appends a file to the system prompt of the program, in every mode. A text as an argument would be visible to all users of a machine. */
  readonly systemPromptFile?: string;
  /** The command with which the program continues its newest session. */
  readonly resume: readonly string[];
  readonly invocations: Readonly<Record<LauncherName, Invocation>>;
  /** True if the prompt must explain how to write checkpoints, because the program does not know it. */
  readonly instructions: boolean;
}

/** No runner can write to a program in a container, so the image's shell redirects the file. The shell never reads text of a task. */
const SHELL = ["sh", "-c", 'exec "$@" < "$FLEET_PROMPT_FILE"', "agent"];
const fromFile = (...command: string[]): Invocation => ({
  command: [...SHELL, ...command],
  prompt: "file",
});

export const READY_PROFILES: Readonly<Record<Exclude<ProfileName, "command">, Profile>> = {
  "claude-code": {
    systemPromptFile: "--append-system-prompt-file",
    resume: ["claude", "--continue"],
    invocations: {
      process: { command: ["claude", "--print"], prompt: "stdin" },
      tmux: { command: ["claude"], prompt: "paste" },
      kubernetes: fromFile("claude", "--print"),
    },
    instructions: true,
  },
  codex: {
    resume: ["codex", "resume", "--last"],
    invocations: {
      process: { command: ["codex", "exec", "-"], prompt: "stdin" },
      tmux: { command: ["codex"], prompt: "paste" },
      kubernetes: fromFile("codex", "exec", "-"),
    },
    instructions: true,
  },
  gemini: {
    resume: ["gemini", "--resume", "latest"],
    invocations: {
      process: { command: ["gemini"], prompt: "stdin" },
      tmux: { command: ["gemini"], prompt: "paste" },
      kubernetes: fromFile("gemini"),
    },
    instructions: true,
  },
};

export interface AgentInvocation extends Invocation {
  /** The prompt is in the system prompt of the program, and the channel carries {@link START_MESSAGE}. */
  readonly hasSystemPrompt: boolean;
  readonly instructions: boolean;
}

/** The invocation for an agent type: its settings take precedence over the profile. */
export function agentInvocation(agent: RunnerAgent): AgentInvocation {
  const { profile, launcher, command, args, prompt, instructions } = agent;
  const ready = profile === "command" ? undefined : READY_PROFILES[profile];
  const usual = ready?.invocations[launcher];
  const option = ready?.systemPromptFile;
  const isOwn = command !== undefined || prompt !== undefined;
  const hasSystemPrompt = option !== undefined && (agent.system_prompt ?? !isOwn);
  const own = [...(command ?? usual?.command ?? []), ...args];
  return {
    command: hasSystemPrompt ? withSystemPrompt(own, option, agent) : own,
    prompt: prompt ?? usual?.prompt ?? "file",
    hasSystemPrompt,
    instructions: instructions ?? ready?.instructions ?? false,
  };
}

/** The command of an agent that continues its own session after a restart. */
export function resumeCommand(agent: RunnerAgent): readonly string[] {
  const { profile, resume_command: own, command, args } = agent;
  if (own !== undefined) return own;
  if (profile === "command" || command !== undefined) return agentInvocation(agent).command;
  const { resume, systemPromptFile: option } = READY_PROFILES[profile];
  const words = [...resume, ...args];
  return option !== undefined && agentInvocation(agent).hasSystemPrompt
    ? [...words, option, "{prompt_file}"]
    : words;
}

/** The pod of a Job knows the path of its prompt only when it runs, and cannot be written to, so its shell adds both. */
function withSystemPrompt(
  command: readonly string[],
  option: string,
  { launcher, command: given }: RunnerAgent,
): readonly string[] {
  if (launcher !== "kubernetes") return [...command, option, "{prompt_file}"];
  const program = given === undefined ? command.slice(SHELL.length) : command;
  return [
    "sh",
    "-c",
    `exec "$@" ${option} "$FLEET_PROMPT_FILE" "${START_MESSAGE.trim()}"`,
    "agent",
    ...program,
  ];
}
