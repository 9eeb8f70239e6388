// Evaluates requests against policies with an implementation that is not ours: JSON on standard input, JSON on standard output.
//
// In: [{ principal, action, resource, account, context, identity: [policy], policy: policy or null }]
// Out: [{ result, ignored, errors }], in the same order.

import { runSimulation } from '@cloud-copilot/iam-simulate'

const everything = { Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }] }

async function evaluate(asked) {
  const simulation = {
    request: {
      principal: asked.principal,
      action: asked.action,
      resource: { resource: asked.resource, accountId: asked.account },
      contextVariables: asked.context
    },
    identityPolicies: asked.identity.map((policy, index) => ({ name: `policy-${index}`, policy })),
    serviceControlPolicies: [{ orgIdentifier: 'root', policies: [{ name: 'everything', policy: everything }] }],
    resourceControlPolicies: [],
    resourcePolicy: asked.policy ?? undefined
  }
  const answer = await runSimulation(simulation, {})
  return {
    result: answer.overallResult ?? answer.resultType,
    ignored: answer.result?.ignoredContextKeys ?? [],
    errors: answer.errors ?? null
  }
}

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const answers = []
for (const asked of JSON.parse(Buffer.concat(chunks).toString('utf8'))) answers.push(await evaluate(asked))
process.stdout.write(JSON.stringify(answers))
