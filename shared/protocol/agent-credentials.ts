/** A runner asks a signing service for the credentials of an agent that it starts. The agent's private key never leaves the runner. */
import { z } from "zod";
import { okAnswerSchema } from "./answers.ts";
import { tokenSchema } from "./ids.ts";

export const agentCredentialsRequestSchema = z.looseObject({
  agent_id: tokenSchema,
  /** The public name of the agent's key. */
  user: z.string().regex(/^U[A-Z2-7]{55}$/, "the public name of a user's key"),
});

export const agentCredentialsSchema = z.looseObject({
  /** The signed claims of the agent, valid for an hour. */
  jwt: z.string(),
  expires_at: z.iso.datetime(),
});

export const agentCredentialsAnswerSchema = okAnswerSchema.extend({ result: agentCredentialsSchema });

export type AgentCredentialsResult = z.output<typeof agentCredentialsSchema>;
