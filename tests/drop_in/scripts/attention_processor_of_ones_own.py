import torch
from diffusers import StableDiffusionPipeline


class Sharper:
    """Attention with a temperature, written out by hand."""

    def __init__(self, temperature):
        self.temperature = temperature

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, **kwargs):
        residual = hidden_states
        batch, length, _ = (hidden_states if encoder_hidden_states is None else encoder_hidden_states).shape
        attention_mask = attn.prepare_attention_mask(attention_mask, length, batch)
        query = attn.to_q(hidden_states)
        if encoder_hidden_states is None:
            encoder_hidden_states = hidden_states
        elif attn.norm_cross:
            encoder_hidden_states = attn.norm_encoder_hidden_states(encoder_hidden_states)
        key, value = attn.to_k(encoder_hidden_states), attn.to_v(encoder_hidden_states)
        query, key, value = (attn.head_to_batch_dim(one) for one in (query, key, value))
        scores = attn.get_attention_scores(query * self.temperature, key, attention_mask)
        hidden_states = attn.batch_to_head_dim(torch.bmm(scores, value))
        hidden_states = attn.to_out[1](attn.to_out[0](hidden_states))
        if attn.residual_connection:
            hidden_states = hidden_states + residual
        return hidden_states / attn.rescale_output_factor


pipe = StableDiffusionPipeline.from_pretrained(folders["sd1"])
pipe.unet.set_attn_processor(Sharper(1.7))
pictures = pipe(
    "red dog", height=16, width=16, num_inference_steps=4, generator=torch.manual_seed(4), output_type="np"
).images
