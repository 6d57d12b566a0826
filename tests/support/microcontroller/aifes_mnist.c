/* Trains the MNIST CNN with AIfES, for comparison: the layers of tests/golden/mnist. */

#include <stdlib.h>

#include "aifes.h"
#include "start.h"

static uint32_t memory[512 * 1024 / 4], parameters[160 * 1024 / 4];
static float images[784], labels[10];

/* Those of newlib need a heap. */
void srand(unsigned seed) { (void)seed; }
int rand(void) {
  static uint32_t state = 1;
  state = state * 1664525 + 1013904223;
  return (int)(state >> 1);
}

int main(void) {
  uint16_t input_shape[] = {1, 28, 28, 1}, target_shape[] = {1, 10};
  ailayer_input_f32_t input = AILAYER_INPUT_F32_A(4, input_shape);
  ailayer_conv2d_t conv_1 = AILAYER_CONV2D_F32_A(32, HW(3, 3), HW(1, 1), HW(1, 1), HW(0, 0));
  ailayer_conv2d_t conv_2 = AILAYER_CONV2D_F32_A(64, HW(3, 3), HW(1, 1), HW(1, 1), HW(0, 0));
  ailayer_relu_f32_t relu_1 = AILAYER_RELU_F32_A(), relu_2 = AILAYER_RELU_F32_A();
  ailayer_maxpool2d_t pool_1 = AILAYER_MAXPOOL2D_F32_A(HW(2, 2), HW(2, 2), HW(0, 0));
  ailayer_maxpool2d_t pool_2 = AILAYER_MAXPOOL2D_F32_A(HW(2, 2), HW(2, 2), HW(0, 0));
  ailayer_flatten_t flatten = AILAYER_FLATTEN_F32_A();
  ailayer_dense_f32_t dense = AILAYER_DENSE_F32_A(10);
  ailayer_softmax_f32_t softmax = AILAYER_SOFTMAX_F32_A();
  ailoss_crossentropy_f32_t loss;
  aimodel_t model;
  model.input_layer = ailayer_input_f32_default(&input);
  ailayer_t *x = ailayer_conv2d_hwc_f32_default(&conv_1, model.input_layer);
  x = ailayer_relu_f32_default(&relu_1, x);
  x = ailayer_maxpool2d_hwc_f32_default(&pool_1, x);
  x = ailayer_conv2d_hwc_f32_default(&conv_2, x);
  x = ailayer_relu_f32_default(&relu_2, x);
  x = ailayer_maxpool2d_hwc_f32_default(&pool_2, x);
  x = ailayer_flatten_f32_default(&flatten, x);
  x = ailayer_dense_f32_default(&dense, x);
  model.output_layer = ailayer_softmax_f32_default(&softmax, x);
  model.loss = ailoss_crossentropy_f32_default(&loss, model.output_layer);
  aialgo_compile_model(&model);
  uint32_t size = aialgo_sizeof_parameter_memory(&model);
  if (size > sizeof parameters) return 1;
  aialgo_distribute_parameter_memory(&model, parameters, size);
  srand(1);
  aialgo_initialize_parameters_model(&model);
  aiopti_sgd_f32_t sgd = AIOPTI_SGD_F32(0.01f);
  aiopti_t *optimizer = aiopti_sgd_f32_default(&sgd);
  size = aialgo_sizeof_training_memory(&model, optimizer);
  print_number("memory", size);
  if (size > sizeof memory) return 1;
  aialgo_schedule_training_memory(&model, optimizer, memory, size);
  aialgo_init_model_for_training(&model, optimizer);
  for (int k = 0; k < 784; k++) images[k] = (float)(k * 7 % 255) / 255;
  labels[3] = 1;
  aitensor_t samples = AITENSOR_4D_F32(input_shape, images);
  aitensor_t targets = AITENSOR_2D_F32(target_shape, labels);
  for (int k = 0; k < 2; k++) {
    uint32_t before = ticks();
    aialgo_train_model(&model, &samples, &targets, optimizer, 1);
    print_number("ticks", (ticks() - before) & 0xFFFFFF);
  }
  print_number("stack", stack_used());
  return 0;
}
