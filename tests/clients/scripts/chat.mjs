// The official client for node: a stream with usage, its stream helper, its error classes.
import OpenAI from 'openai';

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const question = {
  model,
  messages: [{ role: 'user', content: 'What is the capital of France?' }],
  max_tokens: 12,
  temperature: 0,
};

const whole = await client.chat.completions.create(question);

let text = '';
let usage = null;
const finishReasons = [];
const stream = await client.chat.completions.create({
  ...question,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  usage = chunk.usage ?? usage;
  for (const choice of chunk.choices) {
    text += choice.delta.content ?? '';
    if (choice.finish_reason) finishReasons.push(choice.finish_reason);
  }
}

const helped = client.chat.completions.stream({ ...question, n: 2 });
const deltas = [];
helped.on('content', (delta) => deltas.push(delta));
const final = await helped.finalChatCompletion();

const called = await client.chat.completions
  .stream({
    ...question,
    max_tokens: 100,
    tools: [
      {
        type: 'function',
        function: {
          name: 'weather',
          parameters: {
            type: 'object',
            properties: { unit: { enum: ['celsius', 'kelvin'] } },
            required: ['unit'],
            additionalProperties: false,
          },
        },
      },
    ],
    tool_choice: 'required',
    parallel_tool_calls: false,
  })
  .finalChatCompletion();

async function failure(request) {
  try {
    await request();
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code, param: error.param };
  }
}

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    streamed: { text, usage, finishReasons },
    helped: { deltas: deltas.join(''), finals: final.choices.map((c) => c.message.content) },
    called: called.choices[0].message.tool_calls,
    models: (await client.models.list()).data.map((card) => card.id),
    unknownModel: await failure(() => client.chat.completions.create({ ...question, model: 'x' })),
    badField: await failure(() => client.chat.completions.create({ ...question, temperature: 3 })),
    tooLong: await failure(() =>
      client.chat.completions.create({
        ...question,
        messages: [{ role: 'user', content: 'word '.repeat(5000) }],
        stream: true,
      }),
    ),
  }),
);
